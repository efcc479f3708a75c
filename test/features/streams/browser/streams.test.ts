/** The hooks of `perdure/react` in Chromium, in front of a runtime that is killed. */

import { join } from "node:path";
import { build } from "esbuild";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Runtime } from "../../../../examples/runtime.ts";
import { launch } from "../../../support/browser.ts";
import { HANG_MS } from "../../../support/sizes.ts";

const APP = join(import.meta.dirname, "app");
const BEGIN = 'Thank you for your message. You wrote: "';
const END = "It should be with you in two days.";

describe("a page that follows a submission", () => {
  const app = new Runtime(APP);
  const signal = AbortSignal.timeout(600_000);
  let browser: Browser;
  let script: string;

  beforeAll(async () => {
    const entryPoints = [join(APP, "page.tsx")];
    const options = { bundle: true, write: false, format: "esm", jsx: "automatic" } as const;
    const { outputFiles } = await build({ entryPoints, ...options });
    script = outputFiles[0]?.text ?? "";
    await app.start(signal);
    browser = await launch();
  }, 3 * HANG_MS);
  afterAll(async () => {
    await browser?.close();
    app.destroy();
  });

  async function submit(text: string, thread?: string): Promise<string> {
    const body = JSON.stringify({ text, thread });
    const response = await fetch(app.url, { method: "POST", body });
    return ((await response.json()) as { submissionId: string }).submissionId;
  }

  /** A text whose turn runs until it is released. */
  const givenHold = () => `held-${crypto.randomUUID()}`;
  const release = (body: string) => fetch(`${app.url}/release`, { method: "POST", body });

  /** The page is served by the test, so that it can be loaded while the runtime is down. */
  async function open(search: string, user = "ada"): Promise<Page> {
    const context = await browser.newContext();
    await context.addCookies([{ name: "user", value: user, url: app.url }]);
    const page = await context.newPage();
    const html = '<div id="page"></div><script type="module" src="/client.js"></script>';
    await page.route("**/page?*", (route) =>
      route.fulfill({ contentType: "text/html; charset=utf-8", body: html }),
    );
    await page.route("**/client.js", (route) =>
      route.fulfill({ contentType: "text/javascript; charset=utf-8", body: script }),
    );
    await page.goto(`${app.url}/page?${search}`);
    return page;
  }

  const reply = (page: Page) =>
    page
      .locator("#reply")
      .textContent()
      .then((text) => text ?? "");
  const status = (page: Page) => page.locator("#status").textContent();
  const until = (page: Page, isReached: (text: string) => boolean) =>
    expect.poll(async () => isReached(await reply(page)), { timeout: HANG_MS }).toBe(true);
  const ended = async (page: Page) => {
    await expect.poll(() => status(page), { timeout: HANG_MS }).toBe("completed");
    await until(page, (text) => text.startsWith(BEGIN) && text.endsWith(END));
    expect((await reply(page)).split(BEGIN)).toHaveLength(2);
  };

  it("continues where the turn is after a reload", async () => {
    const hold = givenHold();
    const page = await open(`id=${await submit(hold)}`);
    await until(page, (text) => text.length > BEGIN.length);
    const before = await reply(page);
    await page.reload();
    // All of it at once, not from the beginning of the model's stream.
    await until(page, (text) => text.length >= before.length);
    expect(await reply(page)).toContain(before.trim());
    expect(await status(page)).toBe("running");
    await release(hold);
    await ended(page);
    await expect.poll(() => page.locator("#connection").textContent()).toBe("ended");
    await page.reload();
    await ended(page);
  });

  it("shows the same in two tabs", async () => {
    const id = await submit("two tabs");
    const [one, two] = await Promise.all([open(`id=${id}`), open(`id=${id}`)]);
    await until(one, (text) => text.length > 0);
    await until(two, (text) => text.length > 0);
    await Promise.all([ended(one), ended(two)]);
    expect(await reply(one)).toBe(await reply(two));
  });

  it(
    "recovers when the runtime is killed during the turn",
    async () => {
      const hold = givenHold();
      const page = await open(`id=${await submit(hold)}`);
      await until(page, (text) => text.length > BEGIN.length);
      await app.kill();
      await expect
        .poll(() => page.locator("#connection").textContent(), { timeout: HANG_MS })
        .toBe("connecting");
      // What was there stays.
      expect(await reply(page)).toContain(BEGIN);
      await app.start(signal);
      await release(hold);
      await ended(page);
    },
    3 * HANG_MS,
  );

  it("shows the submissions of a thread and their replies", async () => {
    const page = await open("thread=support");
    await submit("first", "support");
    await ended(page);
    await submit("second", "support");
    await expect
      .poll(() => page.locator("#status").allTextContents(), { timeout: HANG_MS })
      .toEqual(["completed", "completed"]);
    expect(await page.locator("#reply").allTextContents()).toEqual([
      expect.stringContaining('"first"'),
      expect.stringContaining('"second"'),
    ]);
  });

  it("shows why another user and an unknown id are refused", async () => {
    const id = await submit("not yours");
    const stranger = await open(`id=${id}`, "eve");
    await expect.poll(() => stranger.locator("#problem").textContent()).toMatch(/does not let/);
    const unknown = await open("id=nothing");
    await expect
      .poll(() => unknown.locator("#problem").textContent())
      .toMatch(/Unknown submission/);
  });
});
