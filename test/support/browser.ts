/** Debian's Chromium for tests in Node, and pages that fail a test for each error that they log. */

import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { delimiter, join } from "node:path";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import { TOKENS } from "./operated.ts";
import { HANG_MS } from "./sizes.ts";

/** Of CHROMIUM, or in PATH. */
function chromiumPath(): string {
  const { CHROMIUM, PATH = "" } = process.env;
  if (CHROMIUM) return CHROMIUM;
  const names = ["chromium", "chromium-browser", "google-chrome"];
  const all = PATH.split(delimiter).flatMap((folder) => names.map((name) => join(folder, name)));
  const found = all.find((file) => existsSync(file));
  if (found === undefined)
    throw new Error(
      "No Chromium in PATH. Install the package chromium, or set CHROMIUM to its path.",
    );
  return found;
}

export const SIZES = {
  desktop: { width: 1280, height: 800 },
  phone: { width: 390, height: 844 },
} as const;

/** A page that a test serves itself counts as one of the internet, which may not open a WebSocket to this machine. */
const REMOTE_PAGES = "LocalNetworkAccessChecks,LocalNetworkAccessChecksWebSockets";

export function launch(): Promise<Browser> {
  // As root, which CI is, Chromium has no sandbox.
  const args = ["--no-sandbox", `--disable-features=${REMOTE_PAGES}`];
  return chromium.launch({ executablePath: chromiumPath(), args });
}

export type Visit = {
  readonly page: Page;
  readonly context: BrowserContext;
  /** What the page has logged: errors, and breaches of its content security policy. */
  readonly problems: string[];
};

/**
 * Runs the timers of the next minute in a page with an installed clock. Ends with one request, which the page sends after
 * those that the timers have sent.
 */
export async function passMinute(page: Page): Promise<void> {
  await page.clock.runFor(60_000);
  await page.evaluate("fetch(location.href).then((response) => response.text())");
}

/** A visitor: one who may act, one who may read, or nobody. */
export async function visit(
  browser: Browser,
  url: string,
  who: keyof typeof TOKENS | undefined,
  {
    size = "desktop",
    scheme = "light",
  }: { size?: keyof typeof SIZES; scheme?: "light" | "dark" } = {},
): Promise<Visit> {
  const context = await browser.newContext({
    viewport: SIZES[size],
    colorScheme: scheme,
    reducedMotion: "reduce",
  });
  if (who) {
    const { origin } = new URL(url);
    await context.addCookies([{ name: "operator", value: TOKENS[who], url: origin }]);
  }
  const page = await context.newPage();
  page.setDefaultTimeout(HANG_MS);
  const problems: string[] = [];
  page.on("pageerror", (error) => problems.push(error.message));
  page.on("console", (message) => {
    // Chromium logs each answer of 4xx and 5xx, which tests cause on purpose.
    const isAnswer = /^Failed to load resource/.test(message.text());
    if (message.type() === "error" && !isAnswer) problems.push(message.text());
  });
  page.on("dialog", (dialog) => {
    problems.push(`A script has opened ${dialog.type()}: ${dialog.message()}`);
    void dialog.dismiss();
  });
  await page.goto(url);
  return { page, context, problems };
}

const AXE = createRequire(import.meta.url).resolve("axe-core/axe.min.js");

/** What axe finds. */
export async function axeFindings(page: Page): Promise<string[]> {
  // By the debugger's protocol, so that the page's policy stays as it is.
  const { readFileSync } = await import("node:fs");
  await page.evaluate(readFileSync(AXE, "utf8"));
  type Violation = { id: string; nodes: { html: string }[] };
  type Global = { axe: { run(): Promise<{ violations: Violation[] }> } };
  const found = await page.evaluate(
    async () => (await (globalThis as unknown as Global).axe.run()).violations,
  );
  return found.map(({ id, nodes }) => `${id}: ${nodes[0]?.html.slice(0, 200)}`);
}
