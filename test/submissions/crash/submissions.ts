/** What becomes of what was submitted when the object dies: each way to submit, and each verb that follows on it. */

import { installGate } from "../../../src/submissions/install-gate.ts";
import type { SubmitMessagesOptions } from "../../../src/submissions/submit-options.ts";
import type { Plans } from "../../support/crash/matrix.ts";
import { until } from "../../support/given.ts";
import { full, limitWait, ScriptedGate } from "../../support/limits/gate.ts";
import type { LedgerObject, TurnScript } from "../../support/objects/ledger-object.ts";
import {
  ACCEPTED,
  begun,
  destinations,
  ended,
  type LedgerPlan,
  later,
  ledgerPlan,
  MINUTE,
  receivedProblems,
  SETTLED,
  type Step,
  said,
  submit,
} from "./scenario.ts";

/** Long enough to be in somebody's way. */
const BUSY: TurnScript = { delayMs: 400 };
/** As long, with calls of the model that others can join. */
const IN_STEPS: TurnScript = { delayMs: 25, calls: 8 };
const SHORT: TurnScript = { delayMs: 5 };
/** Runs whose first submission ends from now on, because the second one was refused. */
const refusedIn = new Set<string>();

const first = (script: TurnScript, options?: SubmitMessagesOptions): Step => {
  return (object) => submit(object, "a", script, options);
};

/** `b` comes while `a` runs. */
function whenBusy(
  how: NonNullable<SubmitMessagesOptions["whenBusy"]>,
  ends: NonNullable<LedgerPlan["ends"]>,
  rest: Partial<LedgerPlan> = {},
): LedgerPlan {
  return {
    verbs: ["Submissions.submit", "TurnEngine.nextStep"],
    steps: [
      first(how === "steer" ? IN_STEPS : BUSY),
      async (object) => {
        await begun(object, "a");
        await submit(object, "b", SHORT, { whenBusy: how });
      },
    ],
    ends,
    ...rest,
  };
}

/** L4: of one that was taken back nothing is left, of one that was not, all. */
async function rolledBack(object: LedgerObject): Promise<string[]> {
  const a = await object.inspect("a");
  const left = (await object.conversation()).filter((id) => id.endsWith("-a"));
  const wanted = a?.status === "aborted" ? 0 : 2;
  return left.length === wanted ? [] : [`L4 a is ${a?.status}, and ${left} are left of it`];
}

/** Not before a minute from now, by the object's own clock. */
const inAMinute = () => new Date(Date.now() + MINUTE);
/** Never, as far as a play goes. */
const FAR: SubmitMessagesOptions = { notBefore: new Date("2100-01-01") };

const SUBMITTED: Readonly<Record<string, LedgerPlan>> = {
  "submit plain, and tell of its end": {
    verbs: ["Submissions.submit"],
    steps: [(object, run) => submit(object, "a", SHORT, { notify: destinations(run, "x") })],
    ends: { a: "completed" },
    said: ["m-a", "reply-a"],
    soonAfter: SETTLED,
    also: (_, run) => receivedProblems(run, ["x"], "completed"),
  },
  "submit with a key, twice": {
    verbs: ["Submissions.submit"],
    steps: [1, 2].map((): Step => {
      return ({ submissions }) => submissions.submit([said("a")], { idempotencyKey: "k" });
    }),
    ends: { k: "completed" },
  },
  "submit to a named thread": {
    verbs: ["Submissions.submit"],
    steps: [first(SHORT, { thread: "side" })],
    ends: { a: "completed" },
    said: [],
    also: async (object) => {
      const found = await object.conversation("side");
      return found.length === 2 ? [] : [`L4 the thread is ${found}`];
    },
  },
  "submit isolated": {
    verbs: ["Submissions.submit"],
    steps: [first(SHORT, { thread: "isolated" })],
    ends: { a: "completed" },
    said: [],
  },
  "submit, and interrupt": whenBusy("interrupt", {
    a: ["aborted", "completed"],
    b: "completed",
  }),
  "submit, and roll back": whenBusy(
    "rollback",
    { a: ["aborted", "completed"], b: "completed" },
    { soonAfter: SETTLED, also: rolledBack },
  ),
  "submit, and steer": whenBusy("steer", { a: "completed", b: "completed" }),
  "submit, steer, and the host cannot say it": {
    ...whenBusy("steer", { a: "completed", b: "completed" }),
    verbs: ["TurnEngine.detachJoined"],
    born: (object) => {
      const { turns, submissions } = object;
      const run = turns.run.bind(turns);
      turns.run = async (turn) => {
        if (turn.submissionId !== "a") return run(turn);
        // What would have joined is kept pending, at each step.
        const nextStep = submissions.turns.nextStep.bind(submissions.turns);
        object.submissions.turns.nextStep = (ref, canJoin) => {
          const joined = nextStep(ref, canJoin);
          if (joined.length > 0) submissions.turns.detachJoined(ref, joined);
          return [];
        };
        return run(turn).finally(() => {
          object.submissions.turns.nextStep = nextStep;
        });
      };
    },
  },
  "submit, rejected as it is busy": {
    verbs: ["Submissions.submit"],
    born: (object) => {
      const { turns } = object;
      const run = turns.run.bind(turns);
      const { id } = Reflect.get(object, "ctx") as DurableObjectState;
      turns.run = async (turn) => {
        const end = run(turn);
        await until(() => refusedIn.has(id.name ?? "") && turns.held.has("a"));
        turns.held.get("a")?.();
        return end;
      };
    },
    steps: [
      first({ isHeld: true }),
      async (object, { id }) => {
        await until(async () => (await object.inspect("a"))?.status === "running");
        const refused = submit(object, "b", SHORT, { whenBusy: "reject" });
        await refused.catch((error: Error) => {
          if (error.name !== "BusyError") throw error;
        });
        refusedIn.add(id);
      },
    ],
    ends: { a: "completed" },
    said: ["m-a", "reply-a"],
  },
  "submit debounced, twice": {
    verbs: ["Submissions.submit"],
    hasLapsing: true,
    steps: [
      ...["early", "late"].map((text): Step => {
        return ({ submissions }) =>
          submissions.submit([said("a", { ...SHORT, text })], {
            debounce: { key: "k", delay: MINUTE },
            metadata: { text },
          });
      }),
      later(2 * MINUTE),
    ],
    soonAfter: ACCEPTED,
    also: async ({ submissions }) => {
      const found = await submissions.list();
      const texts = found.map(({ metadata, status }) => `${metadata?.text} ${status}`).join();
      return texts === "late completed" ? [] : [`L3 it is ${texts}`];
    },
  },
  "submit, and wait for a limit before the turn": {
    verbs: ["Submissions.submit"],
    hasLapsing: true,
    born: ({ submissions }) =>
      installGate(
        submissions,
        new ScriptedGate(({ waitingFor }) => (waitingFor ? undefined : full(20))),
      ),
    steps: [(object, run) => submit(object, "a", SHORT, { notify: destinations(run, "x") })],
    ends: { a: "completed" },
    said: ["m-a", "reply-a"],
    soonAfter: /waiting_for = [?]/,
    also: (_, run) => receivedProblems(run, ["x"], "completed"),
  },
  "submit, and wait for a limit after the turn has begun": {
    verbs: ["Submissions.submit"],
    hasLapsing: true,
    born: ({ submissions, turns }) => {
      installGate(submissions, new ScriptedGate());
      const run = turns.run.bind(turns);
      turns.run = async (turn) => {
        if (turn.isAgain) return run(turn);
        const { attempt, seq } = turn.begin();
        for (const { id } of turn.messages) turns.say(turn.thread, id, "");
        submissions.turns.nextStep({ attempt, seq });
        throw limitWait(20);
      };
    },
    steps: [(object) => submit(object, "a", SHORT)],
    ends: { a: "completed" },
    said: ["m-a", "reply-a"],
    soonAfter: /waiting_for = [?]/,
  },
  "submit for a later time": {
    verbs: ["Submissions.submit"],
    hasLapsing: true,
    steps: [(object) => submit(object, "a", SHORT, { notBefore: inAMinute() }), later(2 * MINUTE)],
    soonAfter: ACCEPTED,
    ends: { a: "completed" },
    said: ["m-a", "reply-a"],
  },
  "submit, and it expires": {
    verbs: ["Submissions.submit"],
    hasLapsing: true,
    steps: [
      (object) => submit(object, "a", SHORT, { notBefore: inAMinute(), expiresIn: 2 * MINUTE }),
      later(3 * MINUTE),
    ],
    soonAfter: ACCEPTED,
    ends: { a: "skipped" },
    said: [],
  },
  "submit, and tell two of its end": {
    verbs: ["Submissions.submit"],
    steps: [(object, run) => submit(object, "a", SHORT, { notify: destinations(run, "x", "y") })],
    soonAfter: SETTLED,
    ends: { a: "completed" },
    also: (_, run) => receivedProblems(run, ["x", "y"], "completed"),
  },
  "submit with priorities": {
    verbs: ["Submissions.submit"],
    hasLapsing: true,
    steps: [
      (object) => submit(object, "low", SHORT, { notBefore: inAMinute() }),
      (object) => submit(object, "high", SHORT, { notBefore: inAMinute(), priority: 5 }),
      later(2 * MINUTE),
    ],
    soonAfter: ACCEPTED,
    ends: { low: "completed", high: "completed" },
    said: ["m-high", "reply-high", "m-low", "reply-low"],
  },
  "submit with a budget, which is used up": {
    verbs: ["Submissions.submit", "TurnEngine.recordUsage"],
    steps: [first({ delayMs: 5, calls: 3, tokens: 100 }, { budget: { tokens: 150 } })],
    ends: { a: "error" },
    also: async (object) => {
      const a = await object.inspect("a");
      return a?.errorName === "BudgetExceededError" ? [] : [`L7 a has failed by ${a?.errorName}`];
    },
  },
  "submit, and a tool acts": {
    verbs: ["Submissions.submit", "TurnEngine.toolCalls"],
    steps: [first({ delayMs: 5, acts: true })],
  },
  "submit, and a transient failure": {
    verbs: ["Submissions.submit"],
    steps: [
      ({ submissions }, { id }) =>
        // How often a message has failed is known by its id.
        submissions.submit(
          [{ ...said("a", { ...SHORT, fail: "later", failTimes: 1, status: 503 }), id: `m-${id}` }],
          { submissionId: "a" },
        ),
    ],
    soonAfter: /perdure_attempts/,
    ends: { a: "completed" },
  },
  "submit, and the host reports the end itself": {
    verbs: ["TurnEngine.end", "TurnEngine.heartbeat"],
    steps: [first(SHORT)],
    ends: { a: "completed" },
    said: ["m-a", "reply-a"],
    born: ({ turns, submissions }) => {
      turns.run = async (turn) => {
        const ref = turn.begin();
        turns.say(turn.thread, "m-a", "said");
        submissions.turns.heartbeat(ref);
        await new Promise((resolve) => setTimeout(resolve, 5));
        turns.say(turn.thread, "reply-a", "done");
        submissions.turns.end(ref, { outcome: "completed", messageId: "reply-a" });
        return { outcome: "reported" };
      };
    },
  },
  "submit many": {
    verbs: ["Submissions.submitMany"],
    steps: [
      ({ submissions }) =>
        submissions.submitMany(
          ["a", "b", "c"].map((id) => ({ messages: [said(id)], options: { submissionId: id } })),
        ),
    ],
    ends: { a: "completed", b: "completed", c: "completed" },
    said: ["m-a", "reply-a", "m-b", "reply-b", "m-c", "reply-c"],
  },
};

const AFTERWARDS: Readonly<Record<string, LedgerPlan>> = {
  "retry one that has failed": {
    verbs: ["Submissions.retry"],
    steps: [
      (object) => submit(object, "a", { fail: "no" }, { idempotencyKey: "k" }),
      async (object) => {
        await ended(object, "a");
        await object.submissions.retry("a");
      },
    ],
    soonAfter: SETTLED,
    ends: { a: "error", k: "error" },
  },
  "cancel one that waits": {
    verbs: ["Submissions.cancel"],
    hasLapsing: true,
    steps: [first(SHORT, FAR), ({ submissions }) => submissions.cancel("a", "not any more")],
    soonAfter: ACCEPTED,
    ends: { a: "aborted" },
    said: [],
  },
  "cancel one that runs": {
    verbs: ["Submissions.cancel"],
    steps: [
      (object, run) => submit(object, "a", BUSY, { notify: destinations(run, "x") }),
      async (object) => {
        await begun(object, "a");
        await object.submissions.cancel("a", "not any more");
      },
    ],
    ends: { a: ["aborted", "completed"] },
    also: async (object, run) => receivedProblems(run, ["x"], (await object.inspect("a"))?.status),
  },
  "delete an ended one": {
    verbs: ["Submissions.delete"],
    steps: [
      first(SHORT),
      async (object) => {
        await ended(object, "a");
        await object.submissions.delete("a");
      },
    ],
    soonAfter: /DELETE FROM perdure_submissions/,
    ends: {},
  },
  "delete all that have ended": {
    verbs: ["Submissions.deleteMany"],
    hasLapsing: true,
    steps: [
      first(SHORT),
      (object) => submit(object, "b", SHORT, { notBefore: inAMinute() }),
      async (object) => {
        await ended(object, "a");
        await object.submissions.deleteMany();
      },
      later(2 * MINUTE),
    ],
    soonAfter: /DELETE FROM perdure_submissions/,
    ends: { b: "completed" },
  },
  "forget what is too old": {
    verbs: ["Submissions.submitMany"],
    options: { retention: { maxCount: 2 } },
    keeps: 2,
    steps: [
      ({ submissions }) =>
        submissions.submitMany(
          ["a", "b", "c"].map((id) => ({ messages: [said(id)], options: { submissionId: id } })),
        ),
    ],
    soonAfter: /DELETE FROM perdure_submissions/,
    ends: { b: "completed", c: "completed" },
  },
  "reset the conversation": {
    verbs: ["TurnEngine.reset"],
    hasLapsing: true,
    steps: [
      first(SHORT, FAR),
      async (object) => {
        await object.submissions.ready();
        object.reset();
      },
    ],
    soonAfter: /status = 'skipped'/,
    ends: { a: "skipped" },
    said: [],
  },
  "clear a thread": {
    verbs: ["Submissions.clearThread"],
    steps: [
      first(BUSY, { thread: "side" }),
      async (object) => {
        await begun(object, "a");
        await submit(object, "b", SHORT, { thread: "side" });
      },
      ({ submissions, turns }) =>
        submissions.clearThread("side", async () => {
          await new Promise((resolve) => setTimeout(resolve, 5));
          turns.empty("side");
        }),
    ],
    soonAfter: SETTLED,
    // The second crash may leave the first one started over, and in line.
    ends: { a: ["aborted", "skipped", "completed"], b: ["skipped", "completed"] },
    also: async (object) => {
      const all = await object.submissions.list();
      const isCleared = all.every(({ status }) => status !== "completed");
      const left = isCleared ? await object.conversation("side") : [];
      return left.length === 0 ? [] : [`L4 ${left} are left in the thread`];
    },
  },
  "clear the main thread": {
    verbs: ["Submissions.clearMain"],
    steps: [
      first(BUSY),
      async (object) => {
        await begun(object, "a");
        await submit(object, "b", SHORT);
      },
      ({ submissions, turns }) => submissions.clearMain(async () => turns.empty("main")),
    ],
    soonAfter: SETTLED,
    // The second crash may leave the first one started over, and in line.
    ends: { a: ["aborted", "skipped", "completed"], b: ["skipped", "completed"] },
  },
};

export const LEDGER: Plans = Object.fromEntries(
  Object.entries({ ...SUBMITTED, ...AFTERWARDS }).map(([name, plan]) => [name, ledgerPlan(plan)]),
);
