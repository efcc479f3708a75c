/** What an agent lists as open work, what that needs of the code, and what new code lacks of it. */

import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { tool } from "ai";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import type { Need, OpenItem } from "../../../../src/features/deploy/types.ts";
import { lacks } from "../../../../src/features/deploy/work/lacks.ts";
import { versionsOf } from "../../../../src/features/deploy/work/versions.ts";
import {
  type ListWorkOptions,
  openWork,
  type RecordedVersions,
} from "../../../../src/features/deploy/work/work.ts";
import { inbound } from "../../../../src/features/inbound/index.ts";
import type { InboundCalls } from "../../../../src/features/inbound/protocol.ts";
import { replies, slack } from "../../../../src/features/replies/index.ts";
import { durableTool } from "../../../../src/hosts/sdk/durable-tool.ts";
import { CAPABILITIES } from "../../../../src/hosts/verbs.ts";
import {
  method,
  queue,
  UndeliverableError,
  workflow,
  workflowEvent,
} from "../../../../src/outbox/index.ts";
import {
  defineScheduledTasks,
  type Scheduler,
  schedules,
} from "../../../../src/scheduler/index.ts";
import { ask } from "../../../../src/testing/index.ts";
import type { Kernel } from "../../../../src/workflow/agent/kernel.ts";
import { message, until } from "../../../support/given.ts";
import {
  type LimitedApp,
  type LimitedObject,
  limitedApps,
} from "../../../support/objects/limited-object.ts";
import { accessTo } from "../../../support/objects/objects.ts";
import { ask as asWait } from "../../../support/waits.ts";

const { inside, crash } = accessTo(() => env.LimitedObject);

type Agent = { readonly name: string };

function givenAgent(app: LimitedApp = {}): Agent {
  const name = `work-${crypto.randomUUID()}`;
  limitedApps.set(name, app);
  return { name };
}

const NOTHING: RecordedVersions = {
  deployments: () => [{ version: "1", since: 0 }],
  versionsOfRuns: () => new Map(),
};

const within = <T>(
  agent: Agent,
  work: (kernel: Kernel, object: LimitedObject, ctx: DurableObjectState) => T | Promise<T>,
) => inside(agent, (object, ctx) => work(object.durable[CAPABILITIES], object, ctx));

const workOf = (agent: Agent, options: ListWorkOptions = {}, recorded = NOTHING) =>
  within(agent, (kernel) => openWork(kernel, recorded, options));

const itemsOf = async (agent: Agent) => (await workOf(agent)).items;

const lacksOf = (agent: Agent, needs: readonly Need[]) =>
  within(agent, (kernel) => lacks(kernel, needs));

/** The items of a kind. */
async function ofKind(agent: Agent, kind: string): Promise<OpenItem[]> {
  return (await itemsOf(agent)).filter((item) => item.kind === kind);
}

const LATER = "2099-01-01T00:00:00Z";
const HEARS = workflowEvent({ workflow: "WAITING_WORKFLOW", instance: "one", eventType: "ended" });

describe("open work", () => {
  it("is empty in a new object", async () => {
    expect(await workOf(givenAgent())).toEqual({ items: [] });
  });

  it("has a pending submission with what hears of its end", async () => {
    const agent = givenAgent({ features: [replies()] });
    const notify = [
      HEARS,
      method("notified"),
      slack({ responseUrl: "https://hooks.slack.com/commands/1" }),
    ];
    const id = await inside(agent, async ({ durable }) => {
      const options = { notBefore: LATER, notify } as const;
      return (await durable.submitMessages([message("hello")], options)).submissionId;
    });
    expect(await itemsOf(agent)).toEqual([
      {
        ...{ kind: "submission", id, version: "1", since: expect.any(Number) },
        needs: [
          { what: "workflow", name: "WAITING_WORKFLOW" },
          { what: "method", name: "notified" },
          { what: "feature", name: "replies" },
        ],
      },
    ]);
  });

  it("has a submission until it ends", async () => {
    const agent = givenAgent();
    const submit = ({ durable }: LimitedObject) =>
      durable.submitMessages([message("hello")], { notBefore: LATER });
    const { submissionId } = await inside(agent, submit);
    expect(await itemsOf(agent)).toMatchObject([{ id: submissionId, needs: [] }]);
    expect(await workOf(agent, { id: `submission/${submissionId}` })).toEqual(await workOf(agent));
    await inside(agent, ({ durable }) => durable.cancelSubmission(submissionId));
    expect(await itemsOf(agent)).toEqual([]);
  });

  it("names the tools of calls that have begun and have no outcome, and code without them lacks them", async () => {
    const hang = () => new Promise(() => {});
    const inputSchema = z.object({});
    const refund = durableTool({
      name: "refund",
      inputSchema,
      execute: hang as () => Promise<string>,
    });
    const tools = { lookUp: tool({ inputSchema, execute: hang }), refund };
    const agent = givenAgent({ tools });
    await inside(agent, async (object) => {
      Object.assign(object, { getTools: () => tools });
      const script = ask({ tool: { name: "refund", input: {} } });
      await object.durable.submitMessages([message(script)]);
      const other = ask({ tool: { name: "lookUp", input: {} } });
      await object.durable.submitMessages([message(other)], { thread: "other" });
    });
    const called = async () => (await itemsOf(agent)).flatMap(({ needs }) => needs);
    await until(async () => (await called()).length === 2);
    const needs = await called();
    expect(needs).toEqual(
      expect.arrayContaining([
        { what: "tool", name: "refund" },
        { what: "tool", name: "lookUp" },
      ]),
    );
    expect(await lacksOf(agent, needs)).toEqual([]);
    await inside(agent, (object) => {
      Object.assign(object, { getTools: async () => ({ lookUp: tools.lookUp }) });
    });
    expect(await lacksOf(agent, needs)).toEqual([{ what: "tool", name: "refund" }]);
    // A host that does not declare its tools cannot lack one.
    await inside(agent, (object) => void Reflect.deleteProperty(object, "getTools"));
    expect(await lacksOf(agent, needs)).toEqual([]);
  });

  it("has open approvals and waits of features, with the Workflow and the feature that they need", async () => {
    const agent = givenAgent({ features: [inbound()] });
    const request = { kind: "webhook", request: { from: "github" } };
    const workflowOf = (id: string) => ({ name: "WAITING_WORKFLOW", id, stepName: "step" });
    const [approval, hook] = await within(agent, async ({ waits }) => [
      await waits.open(asWait({ instance: "a", workflow: workflowOf("a") })),
      await waits.open(asWait({ instance: "b", workflow: workflowOf("b"), ...request })),
    ]);
    const needed: Need = { what: "workflow", name: "WAITING_WORKFLOW" };
    expect(await itemsOf(agent)).toMatchObject([
      { kind: "approval", id: approval?.waitId, needs: [needed] },
      { kind: "webhook", id: hook?.waitId, needs: [needed, { what: "feature", name: "inbound" }] },
    ]);
    await within(agent, ({ approvals }) => approvals.grant(approval?.waitId ?? "", { by: "ann" }));
    expect(await ofKind(agent, "approval")).toEqual([]);
    // The event of its end is the next open work of the same Workflow.
    expect(await itemsOf(agent)).toContainEqual(expect.objectContaining({ kind: "webhook" }));
  });

  it("has deliveries, starts of workflows and dead letters, until they are delivered or deleted", async () => {
    const agent = givenAgent();
    const { items, letter } = await within(agent, async (kernel, object) => {
      const { outbox } = kernel;
      const fail = () => Promise.reject(new UndeliverableError("It is gone"));
      Object.assign(object, { hang: () => new Promise(() => {}), fail });
      const letter = outbox.put(method("fail"), "lost");
      await until(async () => (await outbox.listDeadLetters()).items.length === 1);
      outbox.put(method("hang"), "hello");
      outbox.put(queue("QUEUE"), "hello");
      outbox.put(workflow("WAITING_WORKFLOW", { id: `run-${agent.name}` }));
      return { ...(await openWork(kernel, NOTHING)), letter };
    });
    const byKind = Object.fromEntries(
      items.map(({ kind, needs }) => [`${kind} ${needs[0]?.name}`, needs]),
    );
    expect(byKind).toEqual({
      "dead-letter fail": [{ what: "method", name: "fail" }],
      "delivery hang": [{ what: "method", name: "hang" }],
      "delivery QUEUE": [{ what: "binding", name: "QUEUE" }],
      "workflow-start WAITING_WORKFLOW": [{ what: "workflow", name: "WAITING_WORKFLOW" }],
    });
    await until(async () => (await ofKind(agent, "workflow-start")).length === 0);
    await within(agent, ({ outbox }) => outbox.deleteDeadLetter(letter));
    expect(await ofKind(agent, "dead-letter")).toEqual([]);
  });

  it("has tracked workflows until they end, with their binding and that of the agent", async () => {
    const agent = givenAgent();
    const id = await inside(agent, ({ durable }) => durable.runWorkflow("WAITING_WORKFLOW", {}));
    expect(await ofKind(agent, "workflow")).toEqual([
      {
        ...{ kind: "workflow", id, version: "1", since: expect.any(Number) },
        needs: [
          { what: "workflow", name: "WAITING_WORKFLOW" },
          { what: "binding", name: "LimitedObject" },
        ],
      },
    ]);
    expect(await workOf(agent, { id: `workflow/${id}` })).toMatchObject({ items: [{ id }] });
    expect(await workOf(agent, { id: "workflow/none" })).toEqual({ items: [] });
    const recorded = { ...NOTHING, versionsOfRuns: () => new Map([[id, "8"]]) };
    expect((await workOf(agent, {}, recorded)).items[0]?.version).toBe("8");
    await inside(agent, ({ durable }) => durable.terminateWorkflow(id));
    expect(await ofKind(agent, "workflow")).toEqual([]);
  });

  it("has declared tasks, and runs that have fired and not ended, which belong to the code that declares the task", async () => {
    const handler = () => new Promise(() => {});
    const tasks = () =>
      defineScheduledTasks({ digest: { schedule: "every day at 09:00 in UTC", handler } });
    const agent = givenAgent({ features: [schedules({ tasks })] });
    await within(agent, async ({ features }) => {
      const scheduler = features.get("schedules", "the test") as Scheduler;
      await scheduler.trigger("digest", { key: "now" });
    });
    const needs = [{ what: "task", name: "digest" }] as const;
    expect(await itemsOf(agent)).toMatchObject([
      { kind: "task", id: "digest", needs },
      { kind: "run", id: expect.stringMatching(/^digest\/\d+\/now$/), needs },
    ]);
    expect(await lacksOf(agent, needs)).toEqual([]);
    limitedApps.set(agent.name, {
      features: [schedules({ tasks: () => defineScheduledTasks({}) })],
    });
    await crash(agent);
    expect(await lacksOf(agent, needs)).toEqual(needs);
    limitedApps.set(agent.name, {});
    await crash(agent);
    expect(await lacksOf(agent, needs)).toEqual(needs);
  });

  it("has accepted arrivals whose handler has not ended", async () => {
    const agent = givenAgent({ features: [inbound()] });
    await within(agent, async ({ calls }, _, { storage: { sql } }) => {
      const accept = calls.get("acceptArrival") as InboundCalls["acceptArrival"];
      const id = { source: "github", id: "1", type: "push", receivedAt: 1 };
      const arrival = { ...id, bytes: 2, hash: "0".repeat(64), body: {} };
      await accept({ arrival, call: { ordinal: 0, verb: "notified", args: [] } });
      sql.exec("UPDATE perdure_inbound SET verdict = 'accepted', error = '{}'");
    });
    expect(await itemsOf(agent)).toMatchObject([
      { kind: "arrival", id: "github/1", needs: [{ what: "feature", name: "inbound" }] },
    ]);
    expect(await lacksOf(agent, [{ what: "feature", name: "inbound" }])).toEqual([]);
    await inside(
      agent,
      (_, { storage: { sql } }) => void sql.exec("UPDATE perdure_inbound SET error = NULL"),
    );
    expect(await itemsOf(agent)).toEqual([]);
  });

  it("has a batch while one of its prompts is open", async () => {
    const hang = tool({ inputSchema: z.object({}), execute: () => new Promise(() => {}) });
    const agent = givenAgent({ tools: { hang } });
    const script = ask({ tool: { name: "hang", input: {} } });
    await within(agent, async ({ waits }) => {
      const items = [{ idempotencyKey: "key-1", key: "1", messages: [message(script)] }];
      await waits.kind("batch").open({
        ...{ kind: "batch", idempotencyKey: "batch-1", run: "run-1", timeoutMs: 60_000 },
        workflow: { name: "WAITING_WORKFLOW", id: "b", stepName: "all" },
        request: { thread: "isolated", concurrency: 1, items },
      });
    });
    const batch = { kind: "batch", needs: [{ what: "workflow", name: "WAITING_WORKFLOW" }] };
    expect(await ofKind(agent, "batch")).toMatchObject([batch]);
    await within(agent, ({ waits }) =>
      waits.cancelFor({ workflow: "WAITING_WORKFLOW", instance: "b" }, "no longer needed"),
    );
    expect(await itemsOf(agent)).toEqual([]);
  });
});

describe("what code lacks", () => {
  it("are methods, features, bindings and Workflows that it does not have", async () => {
    const agent = givenAgent({ features: [inbound()] });
    const had: Need[] = [
      { what: "method", name: "notified" },
      { what: "feature", name: "inbound" },
      { what: "binding", name: "QUEUE" },
      { what: "workflow", name: "WAITING_WORKFLOW" },
    ];
    const missing: Need[] = [
      { what: "method", name: "renamed" },
      { what: "method", name: "toString" },
      { what: "feature", name: "replies" },
      { what: "feature", name: "constructor" },
      { what: "binding", name: "GONE" },
      { what: "binding", name: "constructor" },
      { what: "workflow", name: "QUEUE" },
      { what: "workflow", name: "LimitedObject" },
      { what: "task", name: "digest" },
    ];
    expect(await lacksOf(agent, [...had, ...missing])).toEqual(missing);
  });

  it.each([
    ["no list", "tools", "Invalid needs"],
    ["an unknown kind", [{ what: "colour", name: "red" }], "needs[0].what"],
    ["no name", [{ what: "tool" }], 'Missing option "name" in needs[0]'],
    ["more than 1,000", Array(1_001).fill({ what: "tool", name: "x" }), "at most 1000"],
  ])("is refused for %s", async (_, needs, problem) => {
    const refused = within(givenAgent(), (kernel) =>
      lacks(kernel, needs as Need[]).catch((error: Error) => `${error.name}: ${error.message}`),
    );
    const text = await refused;
    expect(text).toContain("InvalidOptionError");
    expect(text).toContain(problem);
  });
});

describe("pages of open work", () => {
  const VERSIONED: RecordedVersions = {
    ...NOTHING,
    deployments: () => [
      { version: "2", since: 5_000 },
      { version: "1", since: 500 },
    ],
  };

  function fill(agent: Agent, count: number, tracked: number) {
    return within(agent, async ({ submissions, agent: host }, _, { storage: { sql } }) => {
      await submissions.ready();
      const numbers = "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n LIMIT ?)";
      sql.exec(
        `INSERT INTO perdure_submissions (submission_id, created_at, messages, not_before)
         ${numbers} SELECT 'id-' || i, i / 3, '[]', 4e12 FROM n`,
        count,
      );
      host.getWorkflows();
      sql.exec(
        `INSERT INTO perdure_workflows (workflow_id, workflow_name, status, created_at, updated_at)
         ${numbers} SELECT 'wf-' || (i % 7) || '-' || i, 'W', 'running', i / 5 * 20 + 1, 0 FROM n`,
        tracked,
      );
      sql.exec(
        `INSERT INTO perdure_outbox_ended (id, destination_key, state, seq, is_ordered, attempts, created_at, ended_at, is_uncertain, reason, destination)
         ${numbers} SELECT 'dead-' || i, 'method fail', 'dead', i, 0, 1, i, 0, 0, 'x', '{"kind":"method","method":"fail"}' FROM n`,
        count / 10,
      );
    });
  }

  async function walk(agent: Agent, limit: number) {
    const all: OpenItem[] = [];
    const costs: number[] = [];
    for (let cursor: string | undefined, pages = 0; pages < 20_000; pages++) {
      const page = await within(agent, async (kernel, { meter }) => {
        await kernel.submissions.ready();
        meter.reset();
        const found = await openWork(kernel, VERSIONED, { limit, ...(cursor && { cursor }) });
        costs.push(meter.read().statements);
        return found;
      });
      all.push(...page.items);
      expect(page.items.length).toBeLessThanOrEqual(limit);
      if (page.cursor === undefined) return { all, costs };
      cursor = page.cursor;
    }
    throw new Error("The walk has no end");
  }

  it("walk 11,350 items, each once, the oldest first, with statements that only workflows add to", async () => {
    const agent = givenAgent();
    await fill(agent, 10_000, 350);
    const { all, costs } = await walk(agent, 1_000);
    expect(all).toHaveLength(11_350);
    expect(new Set(all.map(({ kind, id }) => `${kind}/${id}`)).size).toBe(11_350);
    const times = all.map(({ since }) => since);
    expect(times).toEqual(times.toSorted((one, other) => one - other));
    expect(Math.max(...costs)).toBeLessThanOrEqual(20);
  });

  it.each([1, 7, 100])("of %i items walk all, each once", async (limit) => {
    const agent = givenAgent();
    await fill(agent, 300, 230);
    const { all } = await walk(agent, limit);
    expect(new Set(all.map(({ kind, id }) => `${kind}/${id}`)).size).toBe(560);
    expect(all).toHaveLength(560);
  });

  it("of an Agent of the SDK walk all of its workflows, each once, also those of one second", async () => {
    const stub = env.LimitedAgent.getByName(`work-${crypto.randomUUID()}`);
    const found = await runInDurableObject(stub, async (agent, { storage: { sql } }) => {
      const kernel = agent[CAPABILITIES];
      await kernel.submissions.ready();
      sql.exec(
        `WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n LIMIT 350)
         INSERT INTO cf_agents_workflows (id, workflow_id, workflow_name, status, created_at)
         SELECT 'row-' || i, 'wf-' || (i % 7) || '-' || i, 'W', IIF(i % 10 = 0, 'complete', 'running'), 1000 + i / 120 FROM n`,
      );
      const items: OpenItem[] = [];
      for (let cursor: string | undefined, isLast = false; !isLast; ) {
        const page = await openWork(kernel, NOTHING, { limit: 33, ...(cursor && { cursor }) });
        items.push(...page.items);
        cursor = page.cursor;
        isLast = cursor === undefined;
      }
      return items;
    });
    expect(found).toHaveLength(315);
    expect(new Set(found.map(({ id }) => id)).size).toBe(315);
    expect(found[0]?.needs).toEqual([
      { what: "workflow", name: "W" },
      { what: "binding", name: "LimitedAgent" },
    ]);
  });

  it("say the version that accepted each item, and versions count them, the newest first", async () => {
    const agent = givenAgent();
    await fill(agent, 3_000, 30);
    const versions = () => within(agent, (kernel) => versionsOf(kernel, VERSIONED));
    expect(await versions()).toEqual({
      items: [
        { version: "2", since: 5_000, isCurrent: true, open: {} },
        { version: "1", since: 500, isCurrent: false, open: { submission: 1_500 } },
        {
          ...{ version: null, since: null, isCurrent: false },
          open: { submission: 1_500, workflow: 30, "dead-letter": 300 },
        },
      ],
    });
    const first = await within(agent, (kernel) => versionsOf(kernel, VERSIONED, { limit: 2 }));
    expect(first.items.map(({ version }) => version)).toEqual(["2", "1"]);
    const { cursor } = first;
    const rest = await within(agent, (kernel) =>
      versionsOf(kernel, VERSIONED, { limit: 2, cursor }),
    );
    expect(rest).toMatchObject({ items: [{ version: null }] });
    expect(rest.cursor).toBeUndefined();
  });

  it("say the version of a workflow whose start is known to the second, also in the first second of an agent", async () => {
    const agent = givenAgent();
    await within(agent, async ({ submissions, agent: host }, _, { storage: { sql } }) => {
      await submissions.ready();
      host.getWorkflows();
      sql.exec(
        `INSERT INTO perdure_workflows (workflow_id, workflow_name, status, created_at, updated_at)
         VALUES ('second', 'W', 'running', 7000, 0), ('exact', 'W', 'running', 7001, 0)`,
      );
    });
    const recorded = { ...NOTHING, deployments: () => [{ version: "1", since: 7_500 }] };
    expect((await workOf(agent, {}, recorded)).items).toMatchObject([
      { id: "second", version: "1" },
      { id: "exact", version: null },
    ]);
  });

  it("keep the versions of Workflows apart, which may have the same name", async () => {
    const agent = givenAgent();
    await within(agent, async ({ submissions, agent: host }, _, { storage: { sql } }) => {
      await submissions.ready();
      host.getWorkflows();
      sql.exec(
        `INSERT INTO perdure_workflows (workflow_id, workflow_name, status, created_at, updated_at)
         VALUES ('t-1', 'TICKETS', 'running', 7001, 0), ('t-2', 'TICKETS', 'running', 7002, 0),
           ('r-1', 'REFUNDS', 'running', 7003, 0), ('plain', 'OTHER', 'running', 7004, 0)`,
      );
    });
    const recorded = {
      deployments: () => [{ version: "1", since: 500 }],
      versionsOfRuns: () =>
        new Map([
          ["t-1", "1"],
          ["t-2", "1"],
          ["r-1", "1"],
        ]),
    };
    expect((await within(agent, (kernel) => versionsOf(kernel, recorded))).items).toEqual([
      { version: "1", since: 500, isCurrent: true, open: { workflow: 1 } },
      { version: "1", workflow: "REFUNDS", since: 7_003, isCurrent: false, open: { workflow: 1 } },
      { version: "1", workflow: "TICKETS", since: 7_001, isCurrent: false, open: { workflow: 2 } },
    ]);
  });

  it("say that there is more than is counted", async () => {
    const agent = givenAgent();
    await fill(agent, 10_000, 0);
    const { items } = await within(agent, (kernel) => versionsOf(kernel, VERSIONED));
    expect(items.every(({ isCut }) => isCut)).toBe(true);
    const counted = items.flatMap(({ open }) => Object.values(open));
    expect(counted.reduce((sum, count) => sum + count, 0)).toBe(10_000);
  });

  it.each([
    { limit: 0 },
    { limit: 1_001 },
    { cursor: "tasks:1" },
    { cursor: "work:[]" },
    { cursor: 'work:[1e300,0,"",null,true]' },
    { cursor: 'work:[0,9,"",null,true]' },
    { cursor: 'work:[0,0,"","forged",false]' },
    { id: null },
  ])("are refused for %j", async (options) => {
    const name = await within(givenAgent(), (kernel) =>
      openWork(kernel, NOTHING, options as ListWorkOptions).then(
        () => "accepted",
        (error: Error) => error.name,
      ),
    );
    expect(name).toBe("InvalidFilterError");
  });
});
