/** The operator API over HTTP, in a runtime of its own that is killed. */

import { afterAll, beforeAll, expect, it } from "vitest";
import type { Collections } from "../../../src/operator/index.ts";
import { MAIN, Operated, TOKENS } from "../../support/operated.ts";

const app = new Operated();
const LISTS = [
  "submissions",
  "approvals",
  "inbound",
  "deliveries",
  "dead-letters",
  "endpoints",
  "tasks",
  "workflows",
  "threads",
  "limits",
  "versions",
  "work",
  "actions",
] as const satisfies (keyof Collections)[];

beforeAll(async () => {
  await app.start(AbortSignal.timeout(90_000));
  await app.plant();
}, 180_000);
afterAll(() => app.destroy());

async function all<Name extends keyof Collections>(list: Name, limit: number) {
  const items: Collections[Name][] = [];
  let cursor: string | undefined;
  do {
    const page = await app.client().list(MAIN, list, { limit, cursor } as never);
    items.push(...page.items);
    cursor = page.cursor;
  } while (cursor !== undefined);
  return items;
}

it.each(LISTS)("every page of %s has items, and each item once", async (list) => {
  const one = await all(list, 1);
  expect(one.length).toBeGreaterThan(0);
  expect(new Set(one.map((each) => JSON.stringify(each))).size).toBe(one.length);
  expect(await all(list, 100)).toHaveLength(one.length);
});

it("each item of open work is opened by its id, a workflow with its history", async () => {
  const client = app.client();
  const { items } = await client.list(MAIN, "work", { limit: 100 });
  const kinds = new Set(items.map(({ kind }) => kind));
  expect([...kinds].sort()).toEqual(
    ["approval", "dead-letter", "delivery", "submission", "task", "workflow"].sort(),
  );
  for (const item of items) {
    const opened = await client.inspect(MAIN, "work", `${item.kind}/${item.id}`);
    expect(opened).toMatchObject(item);
    if (item.kind !== "workflow") expect(opened).not.toHaveProperty("history");
    else {
      expect(opened?.history).toMatchObject({
        ...{ workflow: "REFUND_WORKFLOW", workflowId: item.id },
        asked: [{ kind: "prompt" }, { kind: "approval" }],
      });
      // Whoever has the proof of a wait can send the event that ends it.
      expect(JSON.stringify(opened)).toContain('"proof":"(hidden)"');
      expect(JSON.stringify(opened)).not.toMatch(/"proof":"(?!\(hidden\)")/);
    }
  }
  expect(await client.inspect(MAIN, "work", "workflow/none")).toBeNull();
  expect(await client.inspect(MAIN, "work", "none")).toBeNull();
});

it("an agent whose binding is missing is a finding, and the others are reported", async () => {
  const { agents, findings } = await app.client().report();
  expect(agents.map((each) => "report" in each)).toEqual([true, true, false]);
  expect(findings).toContainEqual(
    expect.objectContaining({ code: "agent-unreachable", agent: "Missing" }),
  );
});

it("an action of a browser's session is done and audited, and a visitor's is not", async () => {
  const sessionOf = async (token: string) => {
    const cookie = `operator=${token}`;
    const response = await fetch(`${app.operatorUrl}/api/session`, { headers: { cookie } });
    const { token: sent } = (await response.json()) as { token: string };
    const own = (response.headers.get("set-cookie") ?? "").split(";")[0];
    return { cookie: `${cookie}; ${own}`, "x-perdure-token": sent, origin: app.url };
  };
  const act = async (token: string) => {
    const response = await fetch(`${app.operatorUrl}/api/agents/Shop/main/actions`, {
      method: "POST",
      headers: { ...(await sessionOf(token)), "content-type": "application/json" },
      body: JSON.stringify({
        action: { do: "cancel", submissionId: "later-1" },
        reason: "not needed",
      }),
    });
    return response.status;
  };
  expect(await act(TOKENS.read)).toBe(403);
  expect(await act(TOKENS.act)).toBe(200);
  expect((await app.client().list(MAIN, "actions")).items[0]).toMatchObject({
    by: "ada",
    reason: "not needed",
    outcome: "done",
  });
  expect(await app.client().inspect(MAIN, "submissions", "later-1")).toMatchObject({
    status: "aborted",
  });
});

it("everything is there again after the runtime was killed", async () => {
  const before = await all("submissions", 100);
  await app.kill();
  await expect(app.client().report()).rejects.toMatchObject({ status: 0 });
  await app.start(AbortSignal.timeout(60_000));
  expect((await all("submissions", 100)).length).toBeGreaterThanOrEqual(before.length);
});

it("the page is for operators only", async () => {
  const headers = { cookie: `operator=${TOKENS.read}` };
  expect((await fetch(app.operatorUrl)).status).toBe(401);
  expect((await fetch(app.operatorUrl, { headers })).status).toBe(200);
});
