/**
 * Takes the README's pictures of the dashboard: of the demo with a planted fault, at two sizes. `npm run screenshots` after
 * a change of the page; it needs Chromium, which CHROMIUM may name.
 */
import { spawn } from "node:child_process";
import { mkdirSync } from "node:fs";
import path from "node:path";
import { createInterface } from "node:readline";
import { chromium, type Page } from "playwright-core";

const root = path.join(import.meta.dirname, "..");
const images = path.join(root, "docs/images");
const { CHROMIUM = "/usr/bin/chromium" } = process.env;

const demo = spawn(
  process.execPath,
  ["examples/triage/demo/demo.ts", "--open", "--fault=wrong-secret"],
  {
    cwd: root,
    stdio: ["ignore", "pipe", "inherit"],
  },
);
try {
  const address = await plantedAt();
  mkdirSync(images, { recursive: true });
  // As root Chromium has no sandbox.
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
  const wide = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  await wide.goto(address);
  // The agent with the fault comes first when all have answered.
  await wide.locator(".scroll .bad").first().waitFor();
  await wide.waitForTimeout(4_000);
  await wide.locator("tbody button").first().click();
  await picture(wide, "overview");
  const phone = await browser.newPage({ viewport: { width: 390, height: 800 } });
  await phone.goto(`${address}?view=submissions`);
  await phone.locator("tbody button").first().click();
  await picture(phone, "submission");
  await browser.close();
} finally {
  demo.kill("SIGINT"); // it stops its runtime
}

/** The dashboard's address, when the fault shows. */
async function plantedAt(): Promise<string> {
  let address = "";
  for await (const line of createInterface(demo.stdout)) {
    address = /dashboard: (http\S+)/.exec(line)?.[1] ?? address;
    if (line.includes("Something is wrong")) return address;
  }
  throw new Error("The demo ended before its fault was planted");
}

async function picture(page: Page, name: string): Promise<void> {
  await page.waitForTimeout(4_000); // for the rows, and two looks of the live counts
  await page.screenshot({ path: path.join(images, `${name}.png`) });
  console.log(`docs/images/${name}.png`);
}
