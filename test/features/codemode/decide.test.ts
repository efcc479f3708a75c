/** What is decided about an execution of Code Mode: the table of `decide.ts`, and what must hold whatever is found. Pure. */

import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Action, decide, type Situation } from "../../../src/features/codemode/decide.ts";
import { findExecution, markedCode } from "../../../src/features/codemode/records.ts";
import type {
  CallRecord,
  ExecutionRecord,
  Progress,
} from "../../../src/features/codemode/types.ts";

/** How long an execution of an earlier object instance is left alone. */
const STILL_MS = 15 * 60_000;
const NOW = 1_800_000_000_000;
const SINCE = NOW - 1_000;

const begun: Progress = { step: "begun", since: SINCE };
const at = { since: SINCE, executionId: "e", seq: 1 };
const asked: Progress = { step: "asked", askedAt: SINCE, ...at };
const approved: Progress = { step: "approved", ...at };

function call(seq: number, state: string): CallRecord {
  return { seq, connector: "shop", method: "charge", args: {}, state };
}

function execution(
  status: ExecutionRecord["status"],
  log: CallRecord[] = [],
  updatedAt = NOW,
): ExecutionRecord {
  return { id: "e", code: "1", status, log, createdAt: SINCE, updatedAt };
}

function situation(known: Partial<Situation>): Situation {
  return {
    progress: undefined,
    execution: undefined,
    mayBeForgotten: false,
    approval: undefined,
    refused: undefined,
    hasRun: false,
    now: NOW,
    ...known,
  };
}

const waiting = execution("paused", [call(0, "applied"), call(1, "pending")]);
const untouched = execution("running");
const touched = execution("running", [call(0, "applied"), call(1, "executing")]);
const still = execution("running", [call(0, "applied")], NOW - STILL_MS);

describe("L6: what is decided", () => {
  it.each<[string, Partial<Situation>, Action["do"]]>([
    ["nothing noted", {}, "execute"],
    ["begun, no record", { progress: begun }, "execute"],
    ["begun, maybe forgotten", { progress: begun, mayBeForgotten: true }, "fail"],
    ["asked, no record", { progress: asked }, "fail"],
    ["approved, no record", { progress: approved }, "fail"],
    ["begun, running, no call", { progress: begun, execution: untouched }, "execute"],
    ["begun, running, calls", { progress: begun, execution: touched }, "interrupted"],
    ["approved, running, calls", { progress: approved, execution: touched }, "interrupted"],
    ["asked, running", { progress: asked, execution: touched }, "wait"],
    ["asked, running, still", { progress: asked, execution: still }, "interrupted"],
    ["begun, paused", { progress: begun, execution: waiting }, "ask"],
    ["asked, paused, open", { progress: asked, execution: waiting, approval: "open" }, "wait"],
    [
      "asked, paused, granted",
      { progress: asked, execution: waiting, approval: "completed" },
      "approve",
    ],
    [
      "asked, paused, denied",
      { progress: asked, execution: waiting, approval: "rejected" },
      "reject",
    ],
    [
      "asked, paused, expired",
      { progress: asked, execution: waiting, approval: "expired" },
      "reject",
    ],
    ["asked, paused, unknown", { progress: asked, execution: waiting }, "ask"],
    [
      "asked, paused at the next",
      { progress: { ...asked, seq: 0 }, execution: waiting, approval: "completed" },
      "ask",
    ],
    ["approved, paused at the same", { progress: approved, execution: waiting }, "approve"],
    [
      "approved, paused at the next",
      { progress: { ...approved, seq: 0 }, execution: waiting },
      "ask",
    ],
    ["begun, no record of what has run", { progress: begun, hasRun: true }, "fail"],
    [
      "begun, running after its pass",
      { progress: begun, execution: untouched, hasRun: true },
      "wait",
    ],
    [
      "approved, paused at the same after its pass",
      { progress: approved, execution: waiting, hasRun: true },
      "fail",
    ],
    [
      "asked, granted, after a pass",
      { progress: asked, execution: waiting, approval: "completed", hasRun: true },
      "approve",
    ],
    ["approved, refused", { progress: approved, execution: waiting, refused: "no" }, "fail"],
    ["approved, runs elsewhere", { progress: approved, execution: touched, refused: "no" }, "wait"],
    ["completed", { progress: approved, execution: execution("completed") }, "complete"],
    ["error", { progress: begun, execution: execution("error") }, "fail"],
    ["rejected", { progress: asked, execution: execution("rejected") }, "rejected"],
    ["rolled back", { progress: asked, execution: execution("rolled_back") }, "fail"],
    ["paused for nothing", { progress: begun, execution: execution("paused") }, "fail"],
  ])("%s", (_, known, expected) => {
    expect(decide(situation(known)).do).toBe(expected);
  });

  it("L6: whatever is found, no call that was begun is begun again, and no action is approved that was not granted", () => {
    const states = fc.constantFrom("executing", "applied", "pending", "reverted", "error");
    const record = fc.record({
      id: fc.constant("e"),
      code: fc.constant("1"),
      status: fc.constantFrom("running", "paused", "completed", "error", "rejected", "rolled_back"),
      log: fc.array(
        fc.tuple(fc.nat(4), states).map(([seq, state]) => call(seq, state)),
        { maxLength: 4 },
      ),
      createdAt: fc.constant(SINCE),
      updatedAt: fc.integer({ min: SINCE - STILL_MS, max: NOW }),
    }) as fc.Arbitrary<ExecutionRecord>;
    const any = fc.record({
      progress: fc.option(fc.constantFrom(begun, asked, approved), { nil: undefined }),
      execution: fc.option(record, { nil: undefined }),
      mayBeForgotten: fc.boolean(),
      approval: fc.option(
        fc.constantFrom("open", "completed", "rejected", "failed", "expired", "cancelled"),
        { nil: undefined },
      ),
      refused: fc.option(fc.constant("no"), { nil: undefined }),
      hasRun: fc.boolean(),
      now: fc.constant(NOW),
    }) as fc.Arbitrary<Situation>;
    fc.assert(
      fc.property(any, (found) => {
        const action = decide(found);
        if (action.do === "execute" && found.progress) {
          const states = (found.execution?.log ?? []).map((entry) => entry?.state);
          expect(states.every((state) => state === "pending")).toBe(true);
          expect(
            found.execution ? found.execution.status === "running" : !found.mayBeForgotten,
          ).toBe(true);
          expect(found.execution?.id).toBe(action.forget);
        }
        // Nor is one whose end left no record.
        if (found.hasRun && found.progress && !found.execution) expect(action.do).toBe("fail");
        if (action.do === "approve") {
          expect(found.progress?.step === "approved" || found.approval === "completed").toBe(true);
          expect(found.progress).toMatchObject({ seq: action.action.seq });
        }
        // A pass that was refused is not begun once more by the same drive.
        if (found.refused !== undefined && found.progress && !found.execution) {
          expect(action.do).toBe("fail");
        }
      }),
      { numRuns: 2_000 },
    );
  });
});

describe("L6: an execution is found again", () => {
  it("by a comment before the code, which has no fences", () => {
    for (const code of ["async () => 1", "```js\nasync () => 1\n```"]) {
      expect(markedCode(code, "g")).toMatch(/^\/\* perdure:g \*\/\nasync \(\) => \(/);
      expect(markedCode(code, "g")).toMatch(/\(async \(\) => 1\n\)$/);
    }
  });

  it("L6: or it was never there, or that is not sure: for any history and any pruning", async () => {
    const history = fc.array(fc.record({ isEnded: fc.boolean(), gap: fc.nat(90_000) }), {
      maxLength: 40,
    });
    await fc.assert(
      fc.asyncProperty(history, fc.nat(40), fc.nat(10), async (entries, place, keep) => {
        let time = NOW;
        const all = entries.map(({ isEnded, gap }, index) => {
          time += gap + 1;
          const status = isEnded ? "completed" : "paused";
          return { ...execution(status), id: `e${index}`, createdAt: time };
        });
        const wanted = all[place];
        const since = wanted ? wanted.createdAt - 1 : time + 1;
        const ended = all.filter(({ status }) => status === "completed");
        const pruned = new Set(ended.slice(0, Math.max(0, ended.length - keep)));
        const kept = all.filter((entry) => !pruned.has(entry)).toReversed();
        const runtime = { executions: async (limit = kept.length) => kept.slice(0, limit) };
        const found = await findExecution(runtime, since, ({ id }) => id === wanted?.id);
        if (wanted && !pruned.has(wanted)) expect(found.execution).toBe(wanted);
        else expect(found.execution).toBeUndefined();
        // Where nothing has ended since, nothing can have taken its place.
        if (wanted && pruned.has(wanted) && keep > 0) expect(found.mayBeForgotten).toBe(true);
        if (!wanted) expect(found.mayBeForgotten).toBe(false);
      }),
      { numRuns: 500 },
    );
  });
});
