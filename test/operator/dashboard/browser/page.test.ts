/** What the page does with many rows, lost logins, slow and failing answers, and focus, in Chromium. */

import type { Browser, Locator, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { OperateResult } from "../../../../src/operator/index.ts";
import { axeFindings, launch, type Visit, visit } from "../../../support/browser.ts";
import { Operated, TOKENS } from "../../../support/operated.ts";

const VIEWS = [
  ...["submissions", "workflows", "approvals", "inbound", "deliveries"],
  ...["dead-letters", "endpoints", "tasks", "threads", "limits", "versions", "work", "actions"],
];

describe("the page", () => {
  const app = new Operated();
  let browser: Browser;

  beforeAll(async () => {
    await app.start(AbortSignal.timeout(120_000));
    await app.plant({ submissions: 130 });
    browser = await launch();
  }, 180_000);
  afterAll(async () => {
    await browser?.close();
    app.destroy();
  });

  const open = (search = "", who: Parameters<typeof visit>[2] = "act", options = {}) =>
    visit(browser, `${app.operatorUrl}${search}`, who, options);
  const hasFocus = async (found: Locator) =>
    (await found.and(found.page().locator(":focus")).count()) === 1;
  const rows = (page: Page) => page.locator(".scroll tbody tr");

  async function end({ context, problems }: Visit): Promise<void> {
    await context.close();
    expect(problems).toEqual([]);
  }

  /** Answers actions in place of the agent. */
  async function answerActions(
    page: Page,
    answer: (request: { dryRun?: boolean; cursor?: string }) => Promise<OperateResult>,
  ): Promise<void> {
    await page.route("**/actions", async (route) => {
      if (route.request().method() !== "POST") return route.continue();
      await route.fulfill({ json: await answer(route.request().postDataJSON()) });
    });
  }

  it("a list loads 50 rows, more by cursor, and keeps the same elements for unchanged rows", async () => {
    const visited = await open("?view=submissions&q=status%3Acompleted");
    const { page } = visited;
    await expect.poll(() => rows(page).count()).toBe(50);
    await page.getByRole("button", { name: "More", exact: true }).click();
    await expect.poll(() => rows(page).count()).toBe(100);
    await page.evaluate(`
      globalThis.changes = 0;
      new MutationObserver((all) => { globalThis.changes += all.filter(({ target }) => !target.closest?.("time") && target.nodeName !== "#text").length; })
        .observe(document.querySelector(".scroll"), { childList: true, subtree: true, attributes: true });`);
    const asked: URL[] = [];
    page.on("request", (request) => asked.push(new URL(request.url())));
    await expect.poll(() => asked.length).toBeGreaterThan(1);
    expect(asked.every(({ searchParams }) => searchParams.get("limit") === "50")).toBe(true);
    expect(await page.evaluate("globalThis.changes")).toBe(0);
    expect(await rows(page).count()).toBe(100);
    await end(visited);
  });

  it("a new row appears at the top, and no row between it and those of further pages is lost", async () => {
    const visited = await open("?view=submissions");
    const { page } = visited;
    await page.getByRole("button", { name: "More", exact: true }).click();
    await expect.poll(() => rows(page).count()).toBe(100);
    const texts = () => page.locator(".scroll tbody tr button").allInnerTexts();
    const before = await texts();
    await app
      .client()
      .act(
        { agent: "Shop", name: "main" },
        { action: { do: "retry", submissionId: "failed" }, reason: "a test" },
      );
    await expect.poll(() => rows(page).count()).toBe(101);
    expect((await texts()).slice(1)).toEqual(before);
    await end(visited);
  });

  it("details take the focus, Escape returns it to the row, and ids lead to other views", async () => {
    const visited = await open("?view=submissions&q=thread%3Acustomer-1");
    const { page } = visited;
    const first = rows(page).first().getByRole("button");
    await first.waitFor();
    await page.keyboard.press("j");
    await page.keyboard.press("j");
    await page.keyboard.press("k");
    expect(await hasFocus(first)).toBe(true);
    await page.keyboard.press("Enter");
    const heading = page.locator("aside h2");
    await heading.waitFor();
    expect(await hasFocus(heading)).toBe(true);
    await page.keyboard.press("Escape");
    await expect.poll(() => hasFocus(first)).toBe(true);
    await page.keyboard.press("Enter");
    await page.locator("aside").getByRole("link", { name: "customer-1" }).click();
    await page.getByRole("heading", { level: 1, name: "Threads" }).waitFor();
    await page.locator("aside .messages li").first().waitFor();
    expect(new URL(page.url()).search).toBe("?view=threads&id=customer-1");
    await end(visited);
  });

  it("an action can be done with the keyboard alone", async () => {
    const visited = await open("?view=tasks");
    const { page } = visited;
    await rows(page).first().waitFor();
    await page.keyboard.press("j");
    await page.keyboard.press("Enter");
    const run = page.getByRole("button", { name: "Run now" });
    await run.waitFor();
    for (let tabs = 0; tabs < 10; tabs++) {
      await page.keyboard.press("Tab");
      if (await hasFocus(run)) break;
    }
    await page.keyboard.press("Enter");
    await page.keyboard.type("by keyboard");
    await page.keyboard.press("Tab");
    while ((await page.evaluate("document.activeElement.textContent")) !== "Run now")
      await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await page.getByText("Done: 1 changed.").waitFor();
    await page.keyboard.press("Escape");
    await expect.poll(() => page.getByRole("dialog").count()).toBe(0);
    expect(await hasFocus(run)).toBe(true);
    await end(visited);
  });

  it("an operator pauses, resumes and restarts workflows, deletes dead letters, and closes endpoints", async () => {
    const visited = await open();
    const { page } = visited;
    const act = async (label: string, fill = async () => {}) => {
      await page.locator("aside").getByRole("button", { name: label, exact: true }).click();
      await fill();
      await page.getByLabel("Reason").fill("a test");
      await page.getByRole("dialog").locator("button[type=submit]").click();
      await page.getByText("Done: 1 changed.").waitFor();
      await page.getByRole("button", { name: "Close", exact: true }).click();
    };
    const openFirst = async (view: string) => {
      await page.goto(`${app.operatorUrl}?view=${view}`);
      await rows(page).first().getByRole("button").click();
    };
    await openFirst("workflows");
    await act("Pause");
    await act("Resume");
    await act("Restart", () => page.getByLabel(/From the step/).fill("refund"));
    await openFirst("dead-letters");
    await act("Delete");
    await page.getByText("It does not exist, or was deleted.").waitFor();
    await openFirst("endpoints");
    await act("Disable");
    await act("Enable");
    await end(visited);
  });

  it("a bulk action is offered where the filter has statuses that it acts on", async () => {
    const visited = await open("?view=submissions&q=status%3Acompleted");
    const { page } = visited;
    await rows(page).first().waitFor();
    const buttons = page.getByRole("button", { name: /that match/ });
    expect(await buttons.count()).toBe(0);
    await page.goto(`${app.operatorUrl}?view=submissions&q=status%3Aerror`);
    await rows(page).first().waitFor();
    expect(await buttons.allInnerTexts()).toEqual(["Retry all that match"]);
    await end(visited);
  });

  it("the fix of a finding shows what would change, and warns where the finding has counted another number", async () => {
    const visited = await open("?id=Shop%2Fmain");
    const { page } = visited;
    const rows = [{ id: "<b>x</b>", error: "<i>It is down</i>" }];
    await answerActions(page, async () => ({ outcome: "done", count: 77, failed: [], rows }));
    const finding = page.getByRole("article").filter({ hasText: "--filter" });
    await finding.first().getByRole("button", { name: "Fix it…" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("<b>x</b>: <i>It is down</i>").waitFor();
    await dialog.getByText("and 76 more").waitFor();
    await dialog.getByText(/The finding has counted \d+\./).waitFor();
    await dialog.getByText(/--expect \d+/).waitFor({ state: "attached" });
    await end(visited);
  });

  it("a bulk action goes on by cursor, and lists what failed", async () => {
    const visited = await open("?view=dead-letters");
    const { page } = visited;
    const cursors: (string | undefined)[] = [];
    await answerActions(page, async ({ dryRun, cursor }) => {
      if (!dryRun) cursors.push(cursor);
      const failed = dryRun || cursor ? [] : [{ id: "<b>x</b>", error: "<i>It is gone</i>" }];
      return { outcome: "done", count: 100, failed, ...(!cursor && { cursor: "next" }) };
    });
    await page.getByRole("button", { name: "Redrive all" }).click();
    await page.getByText("200 would change.").waitFor();
    await page.getByLabel("Reason").fill("the receiver is back");
    await page.getByRole("button", { name: "Redrive all (200)" }).click();
    await page.getByText("Done: 200 changed.").waitFor();
    await page.getByText("<b>x</b>: <i>It is gone</i>").waitFor();
    expect(cursors).toEqual([undefined, "next"]);
    await end(visited);
  });

  it("a bulk action that fails on a later page says how many it has changed", async () => {
    const visited = await open("?view=dead-letters");
    const { page } = visited;
    await page.route("**/actions", async (route) => {
      if (route.request().method() !== "POST") return route.continue();
      const { dryRun, cursor } = route.request().postDataJSON();
      if (!dryRun && cursor) return route.abort();
      const next = dryRun ? {} : { cursor: "next" };
      const count = dryRun ? 250 : 100;
      await route.fulfill({ json: { outcome: "done", count, failed: [], ...next } });
    });
    await page.getByRole("button", { name: "Redrive all" }).click();
    await page.getByLabel("Reason").fill("the receiver is back");
    await page.getByRole("button", { name: "Redrive all (250)" }).click();
    await page.getByText("100 of 250 changed before the error.").waitFor();
    await page.getByRole("alert").getByText("No answer from").waitFor();
    expect(await page.getByRole("button", { name: /^Redrive all \(/ }).count()).toBe(0);
    await page.getByRole("button", { name: "Close" }).click();
    await end(visited);
  });

  it("an action works after another tab has begun a session", async () => {
    const visited = await open("?view=tasks");
    const { page, context } = visited;
    await rows(page).filter({ hasText: "heartbeat" }).getByRole("button").first().click();
    await page.getByRole("button", { name: "Run now" }).waitFor();
    const { origin } = new URL(app.operatorUrl);
    await context.addCookies([{ name: "perdure", value: "ab".repeat(32), url: origin }]);
    await page.getByRole("button", { name: "Run now" }).click();
    await page.getByLabel("Reason").fill("two tabs");
    await page.getByRole("dialog").getByRole("button", { name: "Run now" }).click();
    await page.getByText("Done: 1 changed.").waitFor();
    await end(visited);
  });

  it("a bulk action that is stopped does no further page", async () => {
    const visited = await open("?view=dead-letters");
    const { page } = visited;
    let pages = 0;
    let answer = () => {};
    await answerActions(page, async ({ dryRun }) => {
      if (dryRun) return { outcome: "done", count: 1_000, failed: [] };
      pages++;
      await new Promise<void>((resolve) => (answer = resolve));
      return { outcome: "done", count: 100, failed: [], cursor: "next" };
    });
    await page.getByRole("button", { name: "Redrive all" }).click();
    await page.getByText("1000 would change.").waitFor();
    await page.getByLabel("Reason").fill("a test");
    await page.getByRole("button", { name: "Redrive all (1000)" }).click();
    await expect.poll(() => pages).toBe(1);
    await page.getByRole("button", { name: "Stop" }).click();
    answer();
    await page.waitForResponse(/dead-letters/);
    expect(pages).toBe(1);
    expect(await page.getByRole("dialog").count()).toBe(0);
    await end(visited);
  });

  it("the count of a closed dialog does not appear in the next one", async () => {
    const visited = await open("?view=dead-letters");
    const { page } = visited;
    let answer = () => {};
    let asked = 0;
    await answerActions(page, async () => {
      if (++asked > 1) return { outcome: "done", count: 3, failed: [] };
      await new Promise<void>((resolve) => (answer = resolve));
      return { outcome: "done", count: 77, failed: [] };
    });
    await page.getByRole("button", { name: "Delete all" }).click();
    await page.getByText("Counting…").waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Redrive all" }).click();
    await page.getByText("3 would change.").waitFor();
    answer();
    await page.waitForResponse(/dead-letters/);
    await page.getByText("3 would change.").waitFor();
    await end(visited);
  });

  it("an action that the agent refuses says why, and keeps what was typed", async () => {
    const visited = await open("?view=submissions&id=failed");
    const { page } = visited;
    await page.route("**/actions", (route) =>
      route.fulfill({
        status: 400,
        json: { error: { name: "InvalidOperationError", message: "<b>No such thing</b>" } },
      }),
    );
    await page.getByRole("button", { name: "Retry", exact: true }).click();
    await page.getByLabel("Reason").fill("my reason");
    await page.getByRole("dialog").locator("button[type=submit]").click();
    await page.getByRole("alert").getByText("<b>No such thing</b>").waitFor();
    expect(await page.getByLabel("Reason").inputValue()).toBe("my reason");
    await end(visited);
  });

  it("a login that ends under an open page is named, and a new one is taken up", async () => {
    const visited = await open("?view=submissions");
    const { page, context } = visited;
    await rows(page).first().waitFor();
    await context.clearCookies();
    const banner = page.getByRole("alert");
    await banner.waitFor();
    expect(await banner.innerText()).toContain("No operator.");
    expect(await rows(page).count()).toBeGreaterThan(0);
    const value = encodeURIComponent(TOKENS.read);
    await context.addCookies([{ name: "operator", value, url: app.url }]);
    await page.getByRole("button", { name: "Try now" }).click();
    await page.getByText("rita, read only").waitFor();
    await expect.poll(() => banner.count()).toBe(0);
    expect(await page.getByRole("button", { name: "Retry all" }).count()).toBe(0);
    await end(visited);
  });

  it("a slow answer for a view that was left does not replace the one that is open", async () => {
    const visited = await open("?view=threads");
    const { page } = visited;
    await rows(page).first().waitFor();
    let answer = () => {};
    await page.route("**/workflows?*", async (route) => {
      await new Promise<void>((resolve) => (answer = resolve));
      await route.continue();
    });
    await page.getByRole("link", { name: "Workflows" }).click();
    await page.getByText("Loading…").waitFor();
    await page.getByRole("link", { name: "Schedules" }).click();
    await rows(page).filter({ hasText: "night-shift" }).waitFor();
    await page.evaluate(`
      globalThis.hasBeenEmpty = false;
      new MutationObserver(() => { globalThis.hasBeenEmpty ||= !document.querySelector(".scroll tbody tr"); })
        .observe(document.body, { childList: true, subtree: true });`);
    const answered = page.waitForResponse(/workflows/);
    answer();
    await answered;
    await page.waitForResponse(/tasks/);
    expect(await page.evaluate("globalThis.hasBeenEmpty")).toBe(false);
    expect(await rows(page).filter({ hasText: "night-shift" }).count()).toBe(1);
    await end(visited);
  });

  it("limits show what is used of each amount, and a key is paused and resumed by its button", async () => {
    const key = "<img src=x>\u202e👾";
    const acme = {
      ...{ limit: "tenant", key, waiting: 3, longestWaitMs: 65_000 },
      usd: { used: 17.25, amount: 20 },
    };
    let items: object[] = [
      {
        ...{ limit: "openai", key: "", waiting: 0, longestWaitMs: 0 },
        requests: { used: 480, amount: 1_000, allowed: 500 },
        concurrency: { used: 3, amount: 200 },
      },
      acme,
      { limit: "tenant", key: "__proto__", waiting: 0, longestWaitMs: 0 },
    ];
    const visited = await open("?view=overview");
    const { page } = visited;
    await page.route("**/limits?*", (route) => route.fulfill({ json: { items } }));
    const asked: unknown[] = [];
    await page.route("**/actions", async (route) => {
      asked.push(route.request().postDataJSON());
      const paused = { ...acme, pausedAt: Date.now(), reason: "a loop" };
      items = items.map((one) => (one === acme ? paused : one));
      await route.fulfill({ json: { outcome: "done", count: 1, failed: [] } });
    });
    await page.getByRole("link", { name: "Limits" }).click();
    await rows(page).nth(2).waitFor();
    const openai = rows(page).filter({ hasText: "openai" });
    await openai.getByText("480 of 500, declared 1,000").waitFor();
    expect(await openai.locator("meter").count()).toBe(2);
    const tenant = rows(page).filter({ hasText: "17.25 of 20" });
    await tenant.getByText("1 min 5 s").waitFor();
    expect(await page.locator("img").count()).toBe(0);
    expect(await axeFindings(page)).toEqual([]);
    for (const button of ["Pause", "Resume"]) {
      await tenant.getByRole("button").click();
      await page.locator("aside").getByRole("button", { name: button, exact: true }).click();
      await page.getByLabel("Reason").fill("a loop");
      await page.getByRole("dialog").locator("button[type=submit]").click();
      await page.getByText("Done: 1 changed.").waitFor();
      await page.getByRole("button", { name: "Close", exact: true }).click();
      await page.getByRole("button", { name: "Close details" }).click();
    }
    expect(asked).toEqual([
      { action: { do: "pause-limit", limit: "tenant", key }, reason: "a loop" },
      { action: { do: "resume-limit", limit: "tenant", key }, reason: "a loop" },
    ]);
    await end(visited);
  });

  it("costs are dollars by day", async () => {
    const visited = await open("?view=overview");
    const { page } = visited;
    const items = [{ day: "2026-11-26", cost: 12.3456, submissions: 7 }];
    await page.route("**/costs?*", (route) => route.fulfill({ json: { items } }));
    await page.getByRole("link", { name: "Costs" }).click();
    await rows(page).filter({ hasText: "2026-11-26" }).getByText("12.3456").waitFor();
    expect(await axeFindings(page)).toEqual([]);
    await end(visited);
  });

  it("an agent without work says in each view what would be there", async () => {
    const visited = await open("?agent=Shop%2Fempty&view=submissions");
    const { page } = visited;
    // Tasks and versions are those of the code, and limits those of all agents.
    const others = ["tasks", "work", "versions", "limits"];
    for (const view of VIEWS.filter((each) => !others.includes(each))) {
      await page.goto(`${app.operatorUrl}?agent=Shop%2Fempty&view=${view}`);
      await page.getByText(/appear here|is recorded here|appears here/).waitFor();
    }
    await end(visited);
  });

  it("a view that does not exist is answered with the overview, whatever the URL calls it", async () => {
    for (const view of ["none", "constructor", "__proto__", "toString"]) {
      const visited = await open(`?view=${view}`);
      await visited.page.getByRole("region", { name: "Agents, rows" }).waitFor();
      await end(visited);
    }
  });

  it("only the scripts and styles of the answer run: the policy has a nonce of its own each time", async () => {
    const headers = { cookie: `operator=${TOKENS.read}` };
    const policies = await Promise.all(
      [app.operatorUrl, `${app.operatorUrl}/`].map(async (url) => {
        const response = await fetch(url, { headers });
        expect(response.status).toBe(200);
        const html = await response.text();
        const policy = response.headers.get("content-security-policy") ?? "";
        const nonce = /script-src 'nonce-([^']+)'/.exec(policy)?.[1];
        expect(html.split(`nonce="${nonce}"`)).toHaveLength(3);
        expect(html).not.toMatch(/ style="| on\w+="|https?:\/\/(?!www\.w3\.org)/);
        expect(policy).toContain("default-src 'none'");
        return policy;
      }),
    );
    expect(policies[0]).not.toBe(policies[1]);
  });

  it.each(["desktop", "phone"] as const)(
    "every view with its details fits a %s, and axe finds nothing",
    async (size) => {
      const visited = await open("", "act", { size, scheme: size === "phone" ? "dark" : "light" });
      const { page } = visited;
      for (const view of VIEWS) {
        await page.goto(`${app.operatorUrl}?view=${view}`);
        await rows(page).first().getByRole("button").first().click();
        await page.locator("aside dl").first().waitFor();
        expect([view, await axeFindings(page)]).toEqual([view, []]);
        const overflow = await page.evaluate("document.documentElement.scrollWidth - innerWidth");
        expect([view, overflow]).toEqual([view, 0]);
      }
      await end(visited);
    },
    120_000,
  );

  it("with 100,000 submissions every view opens", async () => {
    const visited = await open();
    const { page } = visited;
    await app.fill(100_000);
    for (const search of ["", "?view=submissions", "?view=threads"]) {
      await page.goto(`${app.operatorUrl}${search}`);
      await page.locator(".scroll tbody tr").first().waitFor();
    }
    // A filter on what no index has, and the number of a bulk action over all of them.
    await page.goto(`${app.operatorUrl}?view=submissions&q=metadata.order%3A1234`);
    await rows(page).filter({ hasText: "row-1234" }).waitFor();
    await page.goto(`${app.operatorUrl}?view=submissions&q=status%3Aerror`);
    await page.getByRole("button", { name: "Retry all" }).click();
    await page.getByText("1002 would change.").waitFor();
    await end(visited);
  });
});
