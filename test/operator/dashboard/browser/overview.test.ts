/** The overview with many agents, and answers that fail, in Chromium. */

import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Report } from "../../../../src/operator/index.ts";
import { axeFindings, launch, passMinute, type Visit, visit } from "../../../support/browser.ts";
import { Operated } from "../../../support/operated.ts";

describe("the overview", () => {
  const app = new Operated();
  let browser: Browser;

  beforeAll(async () => {
    await app.start(AbortSignal.timeout(120_000));
    browser = await launch();
  }, 180_000);
  afterAll(async () => {
    await browser?.close();
    app.destroy();
  });

  const rows = (page: Page) => page.locator(".scroll tbody tr");
  async function end({ context, problems }: Visit): Promise<void> {
    await context.close();
    expect(problems).toEqual([]);
  }

  /** The report of an agent with a finding of this severity, or without one. */
  function reportOf(name: string, severity?: "error" | "warning"): Report {
    const agent = "Shop";
    const finding = {
      ...{ code: "dead-letters", severity, title: `<b>${name}</b> has dead letters` },
      evidence: { count: 1, ids: [] },
      ...{ cause: "A cause.", fix: { text: "A remedy." }, link: { view: "dead-letters" } },
    };
    const findings = (severity ? [finding] : []) as unknown as Report["findings"];
    const counts = {
      submissions: { pending: 0, running: 0, completed: 0, error: 0, aborted: 0, skipped: 0 },
      outbox: { waiting: 0, deadLetters: 3 },
      approvals: 0,
    };
    const report = { at: 1, counts, hourly: { completed: [], failed: [] }, verdicts: {}, findings };
    return {
      ...{ at: 1, verdict: "findings", agents: [{ agent, name, report }] },
      findings: findings.map((each) => ({ ...each, agent, name })),
    } as unknown as Report;
  }

  /** Answers the report in place of the API: each page is a list of reports. */
  async function answerReports(page: Page, pages: readonly (readonly Report[])[]): Promise<void> {
    await page.route("**/api/report*", async (route) => {
      const at = Number(new URL(route.request().url()).searchParams.get("cursor") ?? 0);
      const cursor = at + 1 < pages.length ? { cursor: String(at + 1) } : {};
      const last = { at: 1, verdict: "findings", agents: [], findings: [], ...cursor };
      const lines = [...(pages[at] ?? []), last].map((each) => JSON.stringify(each));
      await route.fulfill({ contentType: "application/x-ndjson", body: lines.join("\n") });
    });
  }

  it("lists the agents of all pages, worst first, and finds one by its name or finding", async () => {
    const visited = await visit(browser, `${app.operatorUrl}?view=tasks`, "act");
    const { page } = visited;
    const many = Array.from({ length: 50 }, (_, n) => reportOf(`a${n}`));
    await answerReports(page, [
      many,
      [reportOf("late", "warning"), reportOf("worst", "error"), reportOf("last")],
    ]);
    await page.goto(app.operatorUrl);
    await expect.poll(() => rows(page).count()).toBe(53);
    const firsts = async () => (await rows(page).getByRole("button").allInnerTexts()).slice(0, 3);
    expect(await firsts()).toEqual(["Shop/worst", "Shop/late", "Shop/a0"]);
    await page.getByRole("heading", { level: 1, name: "2 findings" }).waitFor();
    expect(await page.title()).toBe("(2) Overview · Perdure");
    await page.getByRole("button", { name: "healthy 51" }).click();
    await expect.poll(() => rows(page).count()).toBe(51);
    await page.getByLabel("Search").fill("<B>worst");
    await expect.poll(firsts).toEqual(["Shop/worst"]);
    await rows(page).getByRole("button").click();
    await page.locator("aside").getByRole("heading", { name: "<b>worst</b>" }).waitFor();
    expect(await axeFindings(page)).toEqual([]);
    // A link to it shows a colleague the same.
    await page.reload();
    await page.locator("aside").getByText("A cause. A remedy.").waitFor();
    await page.locator("aside").getByRole("link", { name: "Show dead letters" }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByLabel("Search").fill("nothing like this");
    await page.getByText("Nothing matches this filter.").waitFor();
    await end(visited);
  });

  it("shows each agent as it answers, and keeps what it has shown when the rest fails", async () => {
    const visited = await visit(browser, `${app.operatorUrl}?view=tasks`, "act");
    const { page } = visited;
    // Playwright answers a request as a whole, so that the page gets a stream of its own.
    await page.addInitScript(`
      const original = fetch;
      globalThis.fetch = (url, init) => {
        if (!String(url).includes("/api/report")) return original(url, init);
        const { readable, writable } = new TransformStream();
        globalThis.writer = writable.getWriter();
        return Promise.resolve(new Response(readable.pipeThrough(new TextEncoderStream())));
      };`);
    await page.goto(app.operatorUrl);
    await page.getByText("0 of 3 agents have answered…").waitFor();
    const write = (report: Report) =>
      page.evaluate(
        `void globalThis.writer.write(${JSON.stringify(`${JSON.stringify(report)}\n`)})`,
      );
    await write(reportOf("main"));
    await expect.poll(() => rows(page).count()).toBe(1);
    await write(reportOf("empty", "error"));
    await expect
      .poll(() => rows(page).getByRole("button").allInnerTexts())
      .toEqual(["Shop/empty", "Shop/main"]);
    await page.getByText("2 of 3 agents have answered…").waitFor();
    await page.evaluate("void globalThis.writer.abort(new Error('it broke'))");
    await page.getByRole("alert").getByText("it broke").waitFor();
    expect(await rows(page).count()).toBe(2);
    await end(visited);
  });

  it.each([400, 401, 403, 404, 501])(
    "an answer of %i shows its text and stops the asking, until the visitor tries again",
    async (status) => {
      const visited = await visit(browser, `${app.operatorUrl}?view=tasks`, "act");
      const { page } = visited;
      await page.clock.install();
      await page.reload();
      await rows(page).first().waitFor();
      let asked = 0;
      await page.route("**/tasks?*", (route) => {
        asked++;
        return route.fulfill({ status, json: { error: { name: "X", message: "<b>Not you</b>" } } });
      });
      const banner = page.getByRole("alert");
      await banner.getByText("<b>Not you</b>").waitFor();
      const before = asked;
      await passMinute(page);
      expect(asked).toBe(before);
      expect(await banner.innerText()).not.toContain("Trying again");
      await page.unroute("**/tasks?*");
      await page.getByRole("button", { name: "Try now" }).click();
      await expect.poll(() => banner.count()).toBe(0);
      await end(visited);
    },
  );

  it("on a phone a row has two lines, whatever it holds", async () => {
    const visited = await visit(browser, `${app.operatorUrl}?view=tasks`, "act", { size: "phone" });
    const { page } = visited;
    await answerReports(page, [
      [reportOf("a".repeat(200), "error"), reportOf("b"), reportOf("c", "warning")],
    ]);
    for (const search of ["", "?view=tasks"]) {
      await page.goto(`${app.operatorUrl}${search}`);
      await rows(page).first().waitFor();
      for (const row of await rows(page).all()) {
        const { height = 0, width = 0 } = (await row.boundingBox()) ?? {};
        expect(height).toBeLessThan(70);
        expect(width).toBeLessThan(390);
        const cells = await row.locator("td").all();
        const boxes = await Promise.all(cells.map((cell) => cell.boundingBox()));
        const tops = boxes.flatMap((box) => (box && box.height > 0 ? [Math.round(box.y)] : []));
        expect(new Set(tops).size).toBeGreaterThan(1);
      }
      expect(await axeFindings(page)).toEqual([]);
    }
    await end(visited);
  });
});
