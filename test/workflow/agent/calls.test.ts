/** Calls of Perdure's other parts that another version of them, or another caller, has made wrong. */

import { describe, expect, it } from "vitest";
import { codemode } from "../../../src/features/codemode/index.ts";
import { inbound, signedLinks } from "../../../src/features/inbound/index.ts";
import { refusal } from "../../support/given.ts";
import { jobsIn } from "../../support/jobs.ts";
import { inObject, plainObject } from "../../support/plain-object.ts";

const FEATURES = [
  inbound(),
  signedLinks({ url: "https://app.example/hooks/links", secret: "HOOK_SECRET" }),
  codemode(),
];
const REMEDY = "Deploy the agent, its workflows and its receivers with one version of Perdure.";

const called = (name: string, ...args: unknown[]) =>
  inObject(async (ctx, given) => {
    const { durable, lifecycle } = plainObject(ctx, given, FEATURES);
    await lifecycle.start();
    const error = await refusal(durable.callKernel(name, ...args));
    return { error, waits: jobsIn(ctx.storage.sql) };
  });

const wait = { kind: "approval", waitId: "w1" };
const closing = { status: "expired", result: null };
const workflow = { name: "PROMPT_WORKFLOW", id: "o1", stepName: "ask" };
const asked = { kind: "approval", idempotencyKey: "k", run: "r", workflow, timeoutMs: 1_000 };

describe("callKernel()", () => {
  it.each([
    ["openWait", [null], "Invalid request of openWait() null: expected an object."],
    ["openWait", [undefined], "Invalid request of openWait() undefined: expected an object."],
    ["openWait", [{ ...asked, kind: 7 }], "Invalid kind 7: expected a string."],
    ["openWait", [asked], 'Missing option "request" in request of openWait()'],
    ["openWait", [{ ...asked, request: null }], "Invalid request null: expected an object."],
    ["openWait", [{ ...asked, request: {}, workflow: {} }], 'Missing option "name" in workflow'],
    ...[
      { idempotencyKey: "\ud83d" },
      { run: "\ud83d" },
      { workflow: { ...workflow, id: "\ud83d" } },
      { workflow: { ...workflow, stepName: "\ud83d" } },
    ].map(
      (half) => ["openWait", [{ ...asked, request: {}, ...half }], "half of a character"] as const,
    ),
    ["checkWait", ["w1"], 'Invalid wait of checkWait() "w1": expected an object.'],
    ["readWait", [wait, -1], "Invalid part of readWait() -1: expected a whole number from 0."],
    ["refuseWait", ["approval", null], "Invalid waitIds of refuseWait() null: expected a list."],
    ["closeWait", [wait, null], "Invalid closing of closeWait() null: expected an object."],
    ["finishWorkflowRun", [null], "Invalid workflowId of finishWorkflowRun() null"],
  ] as [string, unknown[], string][])(
    "W1: refuses %s with %j, with a remedy, and stores nothing",
    async (name, args, message) => {
      const { error, waits } = await called(name, ...args);
      expect(error.name).toBe("InvalidWaitError");
      expect(error.message).toContain(message);
      expect(error.message).toContain(REMEDY);
      expect(waits).toEqual([]);
    },
  );

  it.each([
    ["openWait", [{ ...asked, kind: "poll", request: {} }], 'no step of the kind "poll"'],
    [
      "openWait",
      [{ ...asked, kind: "prompt", request: {} }],
      "Invalid messages undefined: expected a list.",
    ],
    [
      "openWait",
      [{ ...asked, kind: "batch", request: {} }],
      "Invalid concurrency undefined: expected a whole",
    ],
    [
      "openWait",
      [{ ...asked, kind: "batch", request: { concurrency: 1 } }],
      "Invalid items undefined",
    ],
    [
      "checkWait",
      [{ ...wait, kind: "batch" }],
      "Invalid submissionIds undefined: expected a list.",
    ],
    [
      "checkWait",
      [{ ...wait, kind: "batch", submissionIds: [] }],
      'Missing option "workflow" in wait of a batch: expected an object.',
    ],
    [
      "openWait",
      [{ ...asked, kind: "batch", request: { refused: null } }],
      "Invalid refused null: expected a list.",
    ],
    [
      "openWait",
      [{ ...asked, kind: "prompt", request: { messages: [null] } }],
      "Invalid messages[0] null: expected an object with role and parts.",
    ],
    [
      "readWait",
      [{ ...wait, kind: "batch" }, 0],
      "Invalid submissionIds undefined: expected a list.",
    ],
    [
      "closeWait",
      [{ ...wait, kind: "batch" }, closing],
      "Invalid submissionIds undefined: expected a list.",
    ],
    ["acceptArrival", [null], "Invalid request null: expected an object with "],
    ["countRefused", [null], "Invalid request null: expected an object with "],
    ["followLink", [null, {}], "Invalid path of a link null: expected a list."],
    ["followLink", [[], null], "Invalid call of a link null: expected an object."],
    ["rollbackCodemode", [], "Invalid waitId undefined: expected a non-empty string."],
    ["grow", [], `The agent does not know the call "grow". ${REMEDY}`],
  ])("refuses %s with %j", async (name, args, message) => {
    const { error } = await called(name, ...args);
    expect(error.name).not.toBe("TypeError");
    expect(error.message).toContain(message);
  });
});
