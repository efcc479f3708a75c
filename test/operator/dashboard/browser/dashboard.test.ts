/** The dashboard in Chromium, in front of a runtime of its own that is killed. */

import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { axeFindings, launch, passMinute, type Visit, visit } from "../../../support/browser.ts";
import { MAIN, Operated, TOKENS } from "../../../support/operated.ts";

const VIEWS = {
  submissions: "Submissions",
  workflows: "Workflows",
  approvals: "Approvals",
  inbound: "Arrivals",
  deliveries: "Outbox",
  "dead-letters": "Dead letters",
  endpoints: "Endpoints",
  tasks: "Schedules",
  threads: "Threads",
  versions: "Versions",
  work: "Open work",
  actions: "Audit log",
} as const;

describe("the dashboard", () => {
  const app = new Operated();
  let browser: Browser;
  const signal = AbortSignal.timeout(600_000);

  beforeAll(async () => {
    await app.start(signal);
    await app.plant();
    browser = await launch();
  }, 180_000);
  afterAll(async () => {
    await browser?.close();
    app.destroy();
  });

  const open = (search = "", who: "act" | "read" | "stranger" = "act", options = {}) =>
    visit(browser, `${app.operatorUrl}${search}`, who === "stranger" ? undefined : who, options);
  const row = (page: Page, text: string) =>
    page.locator(".rows tbody tr", { hasText: text }).first();

  async function end({ context, problems }: Visit): Promise<void> {
    await context.close();
    expect(problems).toEqual([]);
  }

  /** Opens the dialog of a button, gives a reason, and confirms. */
  async function act(page: Page, label: string, reason = "a test"): Promise<string> {
    await page.getByRole("button", { name: label, exact: true }).first().click();
    return confirm(page, reason);
  }

  async function confirm(page: Page, reason: string): Promise<string> {
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Reason").fill(reason);
    const submit = dialog.locator("button[type=submit]");
    await expect.poll(() => submit.isEnabled()).toBe(true);
    await submit.click();
    const close = dialog.getByRole("button", { name: "Close" });
    await close.waitFor();
    const text = await dialog.getByRole("status").last().innerText();
    await close.click();
    return text;
  }

  it("every view shows its rows, and nothing is loaded from elsewhere", async () => {
    const visited = await open();
    const { page } = visited;
    const requested: string[] = [];
    page.on("request", (request) => requested.push(request.url()));
    await page.getByRole("heading", { level: 1, name: /finding/ }).waitFor();
    for (const title of Object.values(VIEWS)) {
      await page.getByRole("link", { name: title, exact: true }).click();
      await page.getByRole("heading", { level: 1, name: title }).waitFor();
      await page.locator(".rows tbody tr").first().waitFor();
    }
    const { origin } = new URL(app.url);
    expect(requested.filter((url) => !url.startsWith(origin) && !url.startsWith("data:"))).toEqual(
      [],
    );
    await end(visited);
  });

  it("hostile text in every field is shown as text", async () => {
    const visited = await open();
    const { page } = visited;
    for (const view of Object.keys(VIEWS)) {
      await page.goto(`${app.operatorUrl}?view=${view}`);
      await page.locator(".rows tbody tr").first().waitFor();
    }
    await page.goto(`${app.operatorUrl}?view=submissions&id=hostile`);
    await page.locator("aside").getByText("onerror").first().waitFor();
    const hostile = encodeURIComponent(`"><img src=x onerror=alert(1)>`);
    await page.goto(
      `${app.operatorUrl}?view=submissions&q=${hostile}&id=${hostile}&agent=${hostile}`,
    );
    await page.getByText(/Expected name:value/).waitFor();
    expect(await page.locator("img").count()).toBe(0);
    expect(await page.title()).not.toContain("hacked");
    await end(visited);
  });

  it("a submission is a waterfall of its attempts, model calls and tools", async () => {
    const visited = await open("?view=submissions&id=past-1");
    const { page } = visited;
    const waterfall = page.locator(".waterfall");
    await waterfall.getByRole("row", { name: /model/ }).first().waitFor();
    expect(await waterfall.locator("tbody tr").count()).toBeGreaterThan(2);
    await waterfall.getByText("10 → 5 tokens").first().waitFor();
    expect(await waterfall.locator("tbody td").first().innerText()).toBe("+0 ms");
    const bar = waterfall.locator("tbody tr").first().locator(".bar");
    const model = waterfall.getByRole("button", { name: /model/ });
    await model.click();
    // What is selected fills the width, and shows what is known of it.
    const row = waterfall.getByRole("row", { name: /model/ });
    await waterfall.getByText("gen_ai.request.model").waitFor();
    await expect.poll(() => row.locator(".bar").getAttribute("width")).toBe("100");
    await waterfall.getByRole("button", { name: "Show all" }).click();
    await expect.poll(() => row.locator(".bar").getAttribute("width")).not.toBe("100");
    expect(await bar.getAttribute("width")).toBe("100");
    await end(visited);
  });

  it("a waterfall cuts out a wait that is longer than the work, and says so", async () => {
    const visited = await open();
    const { page } = visited;
    const times = { wait: 7_200_000, work: 3_000 };
    const span = (spanId: string, kind: string, startedAt: number, endedAt: number) => ({
      ...{ spanId, kind, name: `perdure.${kind} <i>${spanId}</i>`, startedAt, endedAt },
      ...{ status: "ok", attributes: {} },
    });
    const end1 = times.wait + times.work;
    const spans = [
      span("all", "submission", 0, end1),
      span("w", "wait", 0, times.wait),
      span("a", "attempt", times.wait, end1),
    ];
    await page.route("**/trace", (route) => route.fulfill({ json: { traceId: "1", spans } }));
    await page.goto(`${app.operatorUrl}?view=submissions&id=past-1`);
    const waterfall = page.locator(".waterfall");
    await waterfall
      .getByText("2 h 0 min in all, of which 2 h 0 min of waiting are cut out")
      .waitFor();
    const width = await waterfall
      .getByRole("row", { name: /attempt/ })
      .locator(".bar")
      .getAttribute("width");
    expect(Number(width)).toBeGreaterThan(80);
    expect(await waterfall.locator(".cut").count()).toBeGreaterThan(1);
    expect(await waterfall.locator("i").count()).toBe(0);
    await end(visited);
  });

  it("versions are beside their open work, of which each item shows its version and its needs", async () => {
    const visited = await open("?view=versions");
    const { page } = visited;
    await row(page, "2026.11.1")
      .getByText(/submission \d+/)
      .waitFor();
    await row(page, "2026.11.1").getByText("active").waitFor();
    await page.keyboard.press("g");
    await page.keyboard.press("k");
    await page.getByRole("heading", { level: 1, name: "Open work" }).waitFor();
    await row(page, "night-shift").click();
    const details = page.locator("aside");
    await details.getByText("2026.11.1").waitFor();
    await details.getByText("task", { exact: true }).first().waitFor();
    await row(page, "workflow").click();
    await details.getByText("history").first().waitFor();
    await details.getByText("REFUND_WORKFLOW").first().waitFor();
    expect(await axeFindings(page)).toEqual([]);
    await end(visited);
  });

  it("a workflow shows how long its steps took, and what went in and came out, as text", async () => {
    const visited = await open("?view=workflows");
    const { page } = visited;
    const { items } = await app.client().list(MAIN, "workflows");
    const inputs: string[] = [];
    for (const { workflowId } of items) {
      await page.goto(`${app.operatorUrl}?view=workflows&id=${workflowId}`);
      const steps = page.getByRole("table", { name: "Steps" });
      const check = steps.getByRole("row", { name: /check/ });
      await check.getByText(/^[\d.]+ (s|ms)$/).waitFor();
      await check.getByText("input").click();
      await check.getByText("output").click();
      expect(await check.locator("details .text").last().innerText()).toContain("was paid");
      inputs.push(await check.locator("details .text").first().innerText());
      await steps.getByText(/so far/).waitFor();
    }
    expect(inputs.join()).toContain("<img src=x onerror");
    expect(await page.locator("img").count()).toBe(0);
    await end(visited);
  });

  it("an id is copied by a button, and a screen reader hears it", async () => {
    const visited = await open("?view=submissions&id=past-1");
    const { page, context } = visited;
    await context.grantPermissions(["clipboard-read", "clipboard-write"]);
    await page.getByRole("button", { name: "Copy past-1" }).click();
    await page.getByRole("status").getByText("Copied past-1").waitFor();
    expect(await page.evaluate("navigator.clipboard.readText()")).toBe("past-1");
    await end(visited);
  });

  it("schedules show their zone, and how many runs were skipped", async () => {
    const visited = await open("?view=tasks");
    const { page } = visited;
    await row(page, "night-shift").getByText("Europe/Berlin").waitFor();
    await page.getByRole("columnheader", { name: "Skipped" }).waitFor();
    await row(page, "night-shift").getByRole("button").first().click();
    // Its next runs are times that can be read.
    const next = page.locator("aside dl div", { hasText: "next occurrences" }).locator("time");
    await expect.poll(() => next.count()).toBe(10);
    await end(visited);
  });

  it("the URL holds the state: reload, back and forward keep it", async () => {
    const visited = await open("?view=submissions");
    const { page } = visited;
    await page.getByLabel("Filter", { exact: true }).fill("status:error");
    await page.keyboard.press("Enter");
    await row(page, "failed").getByRole("button").first().click();
    await page.locator("aside h2", { hasText: "failed" }).waitFor();
    expect(new URL(page.url()).search).toBe("?view=submissions&q=status%3Aerror&id=failed");
    await page.reload();
    await page.locator("aside h2", { hasText: "failed" }).waitFor();
    await page.goBack();
    await expect.poll(() => page.locator("aside").count()).toBe(0);
    await expect.poll(() => page.locator(".rows tbody tr").count()).toBe(2);
    await page.goForward();
    await page.locator("aside h2", { hasText: "failed" }).waitFor();
    await end(visited);
  });

  it("the filter completes names and values, and says what is wrong", async () => {
    const visited = await open("?view=submissions");
    const { page } = visited;
    const field = page.getByLabel("Filter", { exact: true });
    await field.pressSequentially("sta");
    await page.keyboard.press("Tab");
    expect(await field.inputValue()).toBe("status:");
    await field.pressSequentially("err");
    await page.keyboard.press("Tab");
    await field.pressSequentially("thraed:x");
    await page.keyboard.press("Enter");
    await page.getByText('Unknown filter "thraed". Filters: status, thread').waitFor();
    await end(visited);
  });

  it("an operator cancels, retries, redrives, replays, decides, and moves schedules and workflows", async () => {
    const visited = await open();
    const { page } = visited;
    const at = async (search: string) => {
      await page.goto(`${app.operatorUrl}${search}`);
      await page.locator("aside .bulk button").first().waitFor();
    };
    await at("?view=submissions&id=later-1");
    expect(await act(page, "Cancel")).toBe("Done: 1 changed.");
    await at("?view=submissions&id=failed");
    expect(await act(page, "Retry")).toBe("Done: 1 changed.");
    await at("?view=tasks&id=digest");
    expect(await act(page, "Resume")).toBe("Done: 1 changed.");
    await at("?view=tasks&id=heartbeat");
    expect(await act(page, "Pause")).toBe("Done: 1 changed.");
    await at("?view=tasks&id=night-shift");
    expect(await act(page, "Run now")).toBe("Done: 1 changed.");
    expect(await act(page, "Skip next")).toBe("Done: 1 changed.");
    await page.getByRole("button", { name: "Backfill" }).click();
    await page.getByLabel(/^From/).fill("2026-11-01T00:00");
    await page.getByLabel(/^To,/).fill("2026-11-03T00:00");
    expect(await confirm(page, "missed")).toMatch(/^Done/);
    await page.goto(`${app.operatorUrl}?view=approvals&q=status%3Apending`);
    await row(page, "Refund o-1").getByRole("button").first().click();
    expect(await act(page, "Approve")).toBe("Done: 1 changed.");
    await page.goto(`${app.operatorUrl}?view=approvals&q=status%3Apending`);
    await row(page, "Refund o-2").getByRole("button").first().click();
    expect(await act(page, "Reject")).toBe("Done: 1 changed.");
    await page.goto(`${app.operatorUrl}?view=dead-letters`);
    await page.locator(".rows tbody tr").first().getByRole("button").first().click();
    expect(await act(page, "Redrive")).toBe("Done: 1 changed.");
    await at("?view=inbound&id=orders%2Fd-1");
    expect(await act(page, "Replay")).toBe("Done: 1 changed.");
    await at("?view=threads&id=customer-1");
    expect(await act(page, "Clear")).toMatch(/^Done/);
    await page.goto(`${app.operatorUrl}?view=workflows&q=status%3Awaiting`);
    // Those that were decided end soon.
    await expect.poll(() => page.locator(".rows tbody tr").count()).toBe(1);
    await page.locator(".rows tbody tr").first().getByRole("button").first().click();
    expect(await act(page, "Terminate")).toBe("Done: 1 changed.");
    const { items } = await app.client().list(MAIN, "actions", { limit: 100 });
    const done = items.filter(({ by }) => by === "ada").map(({ action }) => action.do);
    expect(new Set(done)).toEqual(
      new Set([
        ...[
          "cancel",
          "retry",
          "resume-task",
          "pause-task",
          "trigger-task",
          "skip-next",
          "backfill",
        ],
        ...["approve", "reject", "redrive", "replay", "clear-thread", "terminate-workflow"],
      ]),
    );
    await end(visited);
  });

  it("a bulk action shows the count of its dry run first, and changes what the filter selects", async () => {
    const visited = await open("?view=submissions&q=status%3Apending");
    const { page } = visited;
    await page.getByRole("button", { name: "Cancel all that match" }).click();
    const counted = page.getByRole("dialog").getByText(/^\d+ would change/);
    await counted.waitFor();
    const expected = Number.parseInt(await counted.innerText(), 10);
    const pending = (await app.client().list(MAIN, "submissions", { status: "pending" })).items;
    expect(expected).toBe(pending.length);
    expect(expected).toBeGreaterThan(1);
    expect(await confirm(page, "clean up")).toBe(`Done: ${expected} changed.`);
    const left = await app.client().list(MAIN, "submissions", { status: "pending" });
    expect(left.items).toEqual([]);
    await end(visited);
  });

  it("nobody sees anything without an identity, and a reader gets no button that acts", async () => {
    const stranger = await open("?view=submissions", "stranger");
    expect(await stranger.page.locator("body").innerText()).toMatch(/^401: No operator\./);
    await stranger.context.close();
    const reader = await open("?view=submissions&id=past-1", "read");
    await reader.page.getByText("rita, read only").waitFor();
    await reader.page.goto(`${app.operatorUrl}?view=tasks&id=digest`);
    await reader.page.getByText("rita may read, and not act.").waitFor();
    for (const label of ["Cancel", "Retry", "Pause", "Resume", "Retry all", "Fix it…"]) {
      expect(await reader.page.getByRole("button", { name: label, exact: true }).count()).toBe(0);
    }
    await end(reader);
  });

  it("the page is usable by keyboard alone", async () => {
    const visited = await open();
    const { page } = visited;
    await page.getByRole("heading", { level: 1, name: /finding/ }).waitFor();
    await page.keyboard.press("g");
    await page.keyboard.press("s");
    await page.locator(".rows tbody tr").first().waitFor();
    await page.keyboard.press("j");
    await page.keyboard.press("Enter");
    await page.locator("aside h2").waitFor();
    await page.keyboard.press("Escape");
    await expect.poll(() => page.locator("aside").count()).toBe(0);
    await page.keyboard.press("/");
    expect(await page.evaluate("document.activeElement.id")).toBe("filter");
    await page.keyboard.press("Escape");
    await page.locator("main").focus();
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keyboard" }).waitFor();
    await page.keyboard.press("Escape");
    await expect.poll(() => page.getByRole("dialog").count()).toBe(0);
    await end(visited);
  });

  it("times are relative, local or UTC, and remembered; so is the theme", async () => {
    const visited = await open("?view=submissions");
    const { page } = visited;
    const first = page.locator(".rows time").first();
    await first.waitFor();
    expect(await first.innerText()).toMatch(/ago|now/);
    await page.getByLabel("Times").selectOption("utc");
    await page.getByLabel("Theme").selectOption("dark");
    await page.reload();
    await first.waitFor();
    expect(await first.innerText()).toMatch(/^\d{4}-\d\d-\d\dT.*Z$/);
    expect(await page.evaluate("document.documentElement.dataset.theme")).toBe("dark");
    await end(visited);
  });

  it.each([
    ["desktop", "light"],
    ["desktop", "dark"],
    ["phone", "light"],
    ["phone", "dark"],
  ] as const)("axe finds nothing on a %s in %s colours", async (size, scheme) => {
    const visited = await open("", "act", { size, scheme });
    const { page } = visited;
    await page.getByRole("heading", { level: 1, name: /finding/ }).waitFor();
    expect(await axeFindings(page)).toEqual([]);
    for (const search of [
      "?view=submissions",
      "?view=submissions&id=past-1",
      "?view=tasks&id=night-shift",
      "?view=workflows",
    ]) {
      await page.goto(`${app.operatorUrl}${search}`);
      await page
        .locator(search.includes("id=") ? "aside dl" : ".rows tbody tr")
        .first()
        .waitFor();
      expect(await axeFindings(page)).toEqual([]);
    }
    if (size === "desktop") {
      await page.goto(`${app.operatorUrl}?view=tasks&id=night-shift`);
      await page.locator("aside .bulk button").first().click();
      await page.getByRole("dialog").waitFor();
      expect(await axeFindings(page)).toEqual([]);
    }
    const width = await page.evaluate("document.documentElement.scrollWidth - innerWidth");
    expect(width).toBeLessThanOrEqual(0);
    await end(visited);
  });

  it("a hidden page asks for nothing, and a visible one again, also who the visitor is now", async () => {
    const visited = await open("?view=submissions");
    const { page, context } = visited;
    await page.clock.install();
    let requests = 0;
    const pending = new Set<unknown>();
    page.on("request", (request) => {
      requests++;
      pending.add(request);
    });
    page.on("requestfinished", (request) => pending.delete(request));
    page.on("requestfailed", (request) => pending.delete(request));
    await page.reload();
    await page.locator(".rows tbody tr").first().waitFor();
    await page.evaluate(`
      Object.defineProperty(document, "hidden", { configurable: true, get: () => true });
      document.dispatchEvent(new Event("visibilitychange"));`);
    // Requests of a load that had begun before.
    await expect.poll(() => pending.size).toBe(0);
    requests = 0;
    await passMinute(page);
    expect(requests).toBe(1);
    requests = 0;
    const { origin } = new URL(app.operatorUrl);
    await context.addCookies([{ name: "operator", value: TOKENS.read, url: origin }]);
    await page.evaluate(
      `delete document.hidden; document.dispatchEvent(new Event("visibilitychange"));`,
    );
    await expect.poll(() => requests).toBeGreaterThan(0);
    await page.getByText("rita, read only").waitFor();
    await end(visited);
  });

  it("a page whose runtime is killed says so, and continues when it is back", async () => {
    const visited = await open("?view=submissions");
    const { page } = visited;
    await page.locator(".rows tbody tr").first().waitFor();
    await app.kill();
    const banner = page.getByRole("alert");
    await banner.waitFor();
    expect(await banner.innerText()).toContain("No answer");
    expect(await page.locator(".rows tbody tr").count()).toBeGreaterThan(0);
    await app.start(signal);
    await expect.poll(() => banner.count()).toBe(0);
    await end(visited);
  });
});
