/** Invalid arguments of the agent's verbs, called inside the agent, where no RPC changes them. */

import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { capabilitiesOf } from "../../../src/hosts/public.ts";
import { DurableThink } from "../../../src/hosts/think/index.ts";
import { CAPABILITIES } from "../../../src/hosts/verbs.ts";
import { operations } from "../../../src/operator/index.ts";
import { workflow } from "../../../src/outbox/index.ts";
import { defineScheduledTasks, schedules } from "../../../src/scheduler/index.ts";
import { givenThink, message, refusal } from "../../support/given.ts";
import { WITHOUT_LIMITS } from "../../support/limits/options.ts";
import { declared, type ThinkAgent } from "../../support/think-agent.ts";

/** One agent for all of them: a refused call leaves nothing behind. */
const REFUSING = crypto.randomUUID();
declared.set(REFUSING, {
  tasks: () => ({ daily: { schedule: "every day at 09:00", handler() {} } }),
});

/** The error of a verb, called by name with any arguments. */
function errorOf(verb: string, ...args: unknown[]): Promise<Error> {
  return runInDurableObject<ThinkAgent, Error>(givenThink(REFUSING), (agent) => {
    if (verb.includes(".")) return refusal(agent.callKernel(verb, ...args));
    const method = Reflect.get(agent, verb) as (...given: unknown[]) => unknown;
    return refusal(Promise.resolve().then(() => method.apply(agent, args)));
  });
}

describe("L1: an id that cannot exist is refused", () => {
  const VERBS: [verb: string, error: string][] = [
    ["inspectSubmission", "InvalidSubmissionError"],
    ["retrySubmission", "InvalidSubmissionError"],
    ["cancelSubmission", "InvalidSubmissionError"],
    ["deleteSubmission", "InvalidSubmissionError"],
    ["waitForSubmission", "InvalidSubmissionError"],
    ["threadMessages", "InvalidSubmissionError"],
    ["clearThread", "InvalidSubmissionError"],
    ["cancelChat", "InvalidSubmissionError"],
    ["replyAttachments", "InvalidSubmissionError"],
    ["approvals.inspect", "InvalidApprovalError"],
    ["approvals.grant", "InvalidApprovalError"],
    ["approvals.reject", "InvalidApprovalError"],
    ["schedules.inspect", "InvalidOptionError"],
    ["schedules.runs", "UnknownTaskError"],
    ["schedules.pause", "UnknownTaskError"],
    ["schedules.resume", "UnknownTaskError"],
    ["schedules.trigger", "UnknownTaskError"],
    ["schedules.skipNext", "UnknownTaskError"],
    ["schedules.remove", "InvalidOptionError"],
    ["outbox.inspect", "InvalidFilterError"],
    ["outbox.read", "InvalidFilterError"],
    ["outbox.redrive", "InvalidFilterError"],
    ["outbox.deleteDeadLetter", "InvalidFilterError"],
    ["outbox.inspectEndpoint", "InvalidDestinationError"],
    ["outbox.enableEndpoint", "InvalidDestinationError"],
    ["outbox.disableEndpoint", "InvalidDestinationError"],
    ["terminateWorkflow", "InvalidOptionError"],
  ];
  const TOO_LARGE = `https://a.example/${"x".repeat(10_000_000)}`;

  it.each(VERBS)("%s() refuses one of 10 MB, a number and a list", async (verb, name) => {
    for (const id of [TOO_LARGE, 5, [], null]) {
      const error = await errorOf(verb, id);
      expect(error).toMatchObject({ name });
      expect(error.message.length).toBeLessThan(500);
    }
  });

  it.each([
    ["listSubmissions", { before: TOO_LARGE }, "InvalidSubmissionError"],
    ["listSubmissions", { thread: TOO_LARGE }, "InvalidSubmissionError"],
    ["listSubmissions", { metadata: { key: TOO_LARGE } }, "InvalidSubmissionError"],
    ["approvals.list", { cursor: TOO_LARGE }, "InvalidApprovalError"],
    ["approvals.list", { workflowId: TOO_LARGE }, "InvalidApprovalError"],
    ["outbox.listDeliveries", { submissionId: TOO_LARGE }, "InvalidFilterError"],
    ["outbox.listDeliveries", { cursor: `1:${TOO_LARGE}` }, "InvalidFilterError"],
    ["outbox.listDeadLetters", { cursor: `1:${TOO_LARGE}` }, "InvalidFilterError"],
  ])("%s() refuses one of 10 MB among its options (%#)", async (verb, options, name) => {
    expect(await errorOf(verb, options)).toMatchObject({ name });
  });
});

describe("L9: a value of 20,000 levels is refused", () => {
  let deep: object = { type: "object" };
  for (let level = 0; level < 20_000; level++) deep = { type: "object", not: deep };
  const hello = [{ id: "m", role: "user", parts: [{ type: "text", text: "hello" }] }];

  it.each([
    ["submitMessages", [hello, { output: deep }], "InvalidSubmissionError"],
    ["submitMessages", [hello, { metadata: deep }], "InvalidSubmissionError"],
    ["runWorkflow", ["SCRIPTED_WORKFLOW", deep], "InvalidEventError"],
    ["runWorkflow", ["SCRIPTED_WORKFLOW", {}, { metadata: deep }], "InvalidSubmissionError"],
  ])("by %s() (%#)", async (verb, args, name) => {
    const error = await errorOf(verb, ...args);
    expect(error).toMatchObject({ name });
    expect(error.message).toMatch(/500 levels/);
    expect(error.message.length).toBeLessThan(500);
  });
});

describe("L1: wrong arguments of workflows are refused", () => {
  const invalid = "InvalidDestinationError";

  it.each([...[null, 5, true, "x", [], new Date(0)].map((options) => ["W", {}, options])])(
    "options of runWorkflow(): %#",
    async (...args) => {
      const error = await errorOf("runWorkflow", ...args);
      expect(error).toMatchObject({ name: invalid });
      expect(error.message).toMatch(/^Invalid options .*: expected an object with id, /);
    },
  );

  it.each(["ifExist", "params", "policy"])("an option of runWorkflow() called %s", async (name) => {
    const error = await errorOf("runWorkflow", "SCRIPTED_WORKFLOW", {}, { [name]: "return" });
    expect(error).toMatchObject({
      name: invalid,
      message: `Unknown option "${name}" in options of runWorkflow(). Valid options: id, metadata, agentBinding, retention, ifExists, priority, concurrency, rate.`,
    });
  });

  it.each([[Symbol("x")], [5], [null], [undefined], [{}], [[]]])(
    "a name that is no string: %#",
    async (name) => {
      const errors = [
        await errorOf("runWorkflow", name, {}),
        await refusal(Promise.resolve().then(() => workflow(name as string))),
      ];
      for (const error of errors) {
        expect(error).toMatchObject({ name: invalid });
        expect(error.message).toMatch(/^Invalid workflow .*: expected a string\.$/);
      }
    },
  );

  it("a Symbol as the id of an instance", async () => {
    const error = await errorOf("runWorkflow", "SCRIPTED_WORKFLOW", {}, { id: Symbol("x") });
    expect(error).toMatchObject({
      name: invalid,
      message: "Invalid id Symbol(x): expected a string.",
    });
  });

  it("a name of 1 MB is cut in the message", async () => {
    const error = await errorOf("runWorkflow", "x".repeat(1_000_000), {});
    expect(error).toMatchObject({ name: invalid });
    expect(error.message.length).toBeLessThan(1_000);
  });

  it.each([
    [null, /^Invalid options of terminateWorkflow\(\) null: expected an object with rollback/],
    [{ rolback: true }, /^Unknown option "rolback" in options of terminateWorkflow/],
    [{ rollback: 1 }, /^Invalid rollback 1: expected true or false\.$/],
  ])("options of terminateWorkflow(): %j", async (options, message) => {
    const error = await errorOf("terminateWorkflow", "w", options);
    expect(error).toMatchObject({ name: "InvalidOptionError" });
    expect(error.message).toMatch(message);
  });
});

it.each([
  ["options of DurableThink", null],
  ["options of DurableThink", 0],
  ["options of DurableThink", true],
  ["options of DurableThink", "x"],
  ["options of DurableThink", []],
  ["options of DurableThink", new Date(0)],
  ["outbox", { outbox: null }],
  ["outbox", { outbox: 5 }],
  ["outbox", { outbox: [] }],
  ["outbox", { outbox: new Date(0) }],
])("the constructor refuses wrong %s: %j", async (option, options) => {
  // Agents change the class of what they construct: DurableThink itself stays as other tests need it.
  class Refused extends DurableThink {}
  const error = await runInDurableObject<ThinkAgent, Error>(givenThink(), (_, ctx) =>
    refusal(
      Promise.resolve().then(() => new Refused(ctx, env as Cloudflare.Env, options as never)),
    ),
  );
  expect(error).toMatchObject({ name: "InvalidOptionError", option });
  expect(error.message).toMatch(/^Invalid .*: expected an object( with .*)?\.$/);
});

describe("without features", () => {
  const bare = (options: object, features?: unknown) => {
    class Bare extends DurableThink {}
    if (features !== undefined) Object.assign(Bare, { features });
    return (_: unknown, ctx: DurableObjectState) =>
      refusal(Promise.resolve().then(() => new Bare(ctx, env as Cloudflare.Env, options as never)));
  };
  const line = "static override readonly features = [operations()]";

  it.each(["healthReport", "listThreads", "listActions"] as const)(
    "operations.%s() throws an error with the line to add",
    async (verb) => {
      class Bare extends DurableThink {}
      const error = await runInDurableObject<ThinkAgent, Error>(givenThink(), async (_, ctx) => {
        const agent = new Bare(ctx, env as Cloudflare.Env);
        return refusal(capabilitiesOf(agent).operations[verb]());
      });
      expect(error).toMatchObject({ name: "FeatureNotInstalledError", feature: "operations" });
      expect(error.message).toContain("agent.operations needs operations()");
      expect(error.message).toContain(line);
    },
  );

  it("W2: step.agentTool() throws an error with the line to add", async () => {
    class Bare extends DurableThink {}
    const error = await runInDurableObject<ThinkAgent, Error>(givenThink(), async (_, ctx) => {
      const agent = new Bare(ctx, env as Cloudflare.Env);
      const workflow = { name: "TOOLS", id: "w1", stepName: "research" };
      const asked = { idempotencyKey: "k1", run: "r1", workflow, request: {}, timeoutMs: 1_000 };
      return refusal(agent.callKernel("openWait", { kind: "agent-tool", ...asked }));
    });
    expect(error).toMatchObject({ name: "FeatureNotInstalledError", feature: "agentTools" });
    expect(error.message).toContain("step.agentTool() needs agentTools()");
    expect(error.message).toContain('Import it from "perdure/agent-tools"');
  });

  it.each(WITHOUT_LIMITS)(
    "L1: %s of a caller over RPC is refused without limits(), and nothing is stored: %j",
    async (usedBy, options) => {
      const agent = givenThink();
      const error = await refusal(agent.submitMessages([message("hello")], options as never));
      expect(error).toMatchObject({ name: "FeatureNotInstalledError", feature: "limits", usedBy });
      expect(error.message).toContain(`${usedBy} needs limits(). `);
      expect(error.message).toContain("static override readonly features = [..., limits()]");
      const stored = await runInDurableObject<ThinkAgent, unknown>(agent, (object, { storage }) => [
        storage.sql.exec("SELECT 1 FROM perdure_submissions").toArray(),
        storage.sql.exec("SELECT 1 FROM perdure_outbox").toArray(),
        object.messages,
      ]);
      expect(stored).toEqual([[], [], []]);
    },
  );

  it.each([
    [null],
    ["operations"],
    [{}],
    [[null]],
    [["operations"]],
    [[operations(), operations()]],
  ])("the features %j are refused", async (features) => {
    const error = await runInDurableObject<ThinkAgent, Error>(givenThink(), bare({}, features));
    expect(error).toMatchObject({ name: "InvalidOptionError", option: "features" });
    expect(error.message).toContain("[operations()]");
  });

  it("DurableThink has schedules, whether or not the class lists them, and refuses options of a plain object", async () => {
    class Listed extends DurableThink {
      static override readonly features = [schedules()];
    }
    for (const Class of [Listed, class Bare extends DurableThink {}]) {
      const has = await runInDurableObject<ThinkAgent, boolean>(givenThink(), (_, ctx) =>
        new Class(ctx, env as Cloudflare.Env)[CAPABILITIES].features.has("schedules"),
      );
      expect(has).toBe(true);
    }
    const given = [schedules({ tasks: () => defineScheduledTasks({}) })];
    const error = await runInDurableObject<ThinkAgent, Error>(givenThink(), bare({}, given));
    expect(error.message).toContain("Invalid tasks of schedules(): the class has methods for it.");
  });
});

describe("L9: a cursor of another list is refused at the call", () => {
  const CURSORS = [
    "actions:1",
    "approval-1",
    "arrivals:1",
    "dead-letters:1:a",
    "deliveries:1:a",
    "endpoints:a",
    "messages:1",
    "replays:1:2",
    "runs of weekly:1:a",
    "tasks:a",
    "threads:1",
    "workflows:1",
  ];
  const LISTS: [verb: string, own: string, ...args: unknown[]][] = [
    ["approvals.list", ""],
    ["inbound.list", "arrivals:1"],
    ["inbound.replayMany", "replays:1:2"],
    ["operations.listActions", "actions:1"],
    ["operations.listCosts", "costs:1"],
    ["operations.listThreadMessages", "messages:1", "main"],
    ["operations.listThreads", "threads:1"],
    ["operations.listWorkflows", ""],
    ["outbox.listDeadLetters", "dead-letters:1:a"],
    ["outbox.listDeliveries", "deliveries:1:a"],
    ["outbox.listEndpoints", "endpoints:a"],
    ["schedules.list", "tasks:a"],
    ["schedules.runs", "runs of daily:1:a", "daily"],
  ];

  it.each(LISTS)("%s()", async (verb, own, ...args) => {
    for (const cursor of CURSORS.filter((each) => each !== own)) {
      const { message } = await errorOf(verb, ...args, { cursor });
      expect(message).toMatch(
        /^Invalid cursor ".*": expected (the cursor of an earlier page|an approval)/,
      );
    }
  });

  it("listSubmissions()", async () => {
    for (const before of CURSORS) {
      const error = await errorOf("listSubmissions", { before });
      expect(error).toMatchObject({ name: "UnknownCursorError" });
    }
  });
});
