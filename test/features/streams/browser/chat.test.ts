/** The page of examples/chat in Chromium: useAgentChat() next to useSubmission(), in front of a runtime that is killed. */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Runtime } from "../../../../examples/runtime.ts";
import { launch } from "../../../support/browser.ts";
import { HANG_MS } from "../../../support/sizes.ts";

const EXAMPLE = join(import.meta.dirname, "../../../../examples/chat");
const END = "in two days.";
const timeout = HANG_MS;
/** The model repeats it word by word, for longer than a busy machine needs to load the page again. */
const LONG = "and so on ".repeat(50);

describe("the page of a chat", () => {
  const app = new Runtime(EXAMPLE);
  const signal = AbortSignal.timeout(600_000);
  const html = readFileSync(join(EXAMPLE, "public/index.html"), "utf8");
  let browser: Browser;
  let script: string;

  beforeAll(async () => {
    const entryPoints = [join(EXAMPLE, "src/client/page.tsx")];
    const options = { bundle: true, write: false, format: "esm", jsx: "automatic" } as const;
    // The public names of the library are its sources here.
    const tsconfig = join(EXAMPLE, "../../tsconfig.json");
    const { outputFiles } = await build({ entryPoints, tsconfig, ...options });
    script = outputFiles[0]?.text ?? "";
    await app.start(signal);
    browser = await launch();
  }, 4 * HANG_MS);
  afterAll(async () => {
    await browser?.close();
    app.destroy();
  });

  async function open(hash = ""): Promise<Page> {
    const page = await (await browser.newContext()).newPage();
    await page.route("**/page*", (route) =>
      route.fulfill({ contentType: "text/html; charset=utf-8", body: html }),
    );
    await page.route("**/client.js", (route) =>
      route.fulfill({ contentType: "text/javascript; charset=utf-8", body: script }),
    );
    const socket = page.waitForEvent("websocket", { timeout });
    await page.goto(`${app.url}/page${hash}`);
    // A tab that connects while another one speaks may miss the beginning.
    await (await socket).waitForEvent("framereceived", { timeout });
    return page;
  }

  const text = async (page: Page, where: string) => (await page.locator(where).textContent()) ?? "";
  const until = (page: Page, where: string, isReached: (text: string) => boolean) =>
    expect.poll(async () => isReached(await text(page, where)), { timeout }).toBe(true);
  async function say(page: Page, what: string, how: "Say" | "Ask durably"): Promise<void> {
    await page.locator("input").fill(what);
    await page.getByRole("button", { name: how }).click();
  }

  it("shows what is said in the chat, in every tab", async () => {
    const [page, other] = await Promise.all([open(), open()]);
    await say(page, "hello", "Say");
    await until(page, "#messages", (said) => said.endsWith(END));
    await until(other, "#messages", (said) => said.includes("hello") && said.endsWith(END));
  });

  it(
    "a durable turn goes on after a reload and after a kill, in the same conversation",
    async () => {
      const page = await open();
      await say(page, `a kill ${LONG}`, "Ask durably");
      await until(page, "#reply", (said) => said.length > 20);
      await page.reload();
      await until(page, "#reply", (said) => said.length > 20);
      await app.kill();
      await expect.poll(() => text(page, "#status"), { timeout }).toBe("connecting");
      await app.start(signal);
      await expect.poll(() => text(page, "#status"), { timeout }).toBe("completed");
      await until(page, "#reply", (said) => said.includes("a kill") && said.endsWith(END));
      const other = await open();
      await until(other, "#messages", (said) => said.includes("a kill") && said.endsWith(END));
      expect((await text(other, "#messages")).split("user").length).toBe(3);
    },
    4 * HANG_MS,
  );
});
