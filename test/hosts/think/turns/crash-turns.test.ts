/** An agent crashes at any write or delivery of its submissions, schedules and events. */

import { capabilitiesOf } from "../../../../src/hosts/public.ts";
import { defineScheduledTasks } from "../../../../src/hosts/think/index.ts";
import { method, webhook } from "../../../../src/outbox/index.ts";
import { ask, modelCalls, type Script } from "../../../../src/testing/index.ts";
import { differs } from "../../../support/crash/objects.ts";
import {
  ACCEPTED,
  type Agent,
  ANY,
  BURIED,
  DECLARED,
  FORGOTTEN,
  isAtRest,
  met,
  playThinkMatrix,
  RUN,
  type Run,
  replied,
  SETTLED,
  SKIPPED,
  said,
  script,
  statuses,
  statusesAre,
  submit,
  type ThinkScenario,
} from "../../../support/crash/think.ts";
import { message } from "../../../support/given.ts";
import { declared } from "../../../support/think-agent.ts";
import { PLAYED } from "../crash/crash-verbs.ts";

/** One that does not end by itself. */
const endless = (id: string): Script => script(id, { delayMs: 60_000 });
const slow = (id: string): Script => script(id, { delayMs: 3_000 });

/** A second one, behind it. */
const submitBehind =
  (options: object = {}) =>
  (agent: Agent, { id }: Run) => {
    const next = `${id}-next`;
    const said = [message(script(next), next)];
    return agent.submitMessages(said, { idempotencyKey: next, submissionId: next, ...options });
  };

/** The turn that ran was ended; called again after a crash, a reset ends what the crash has interrupted. */
async function endedByReset(agent: Agent, starts: number): Promise<string[]> {
  const [first] = await statuses(agent);
  const isInterrupted = starts > 1 && first === "skipped";
  return statusesAre(agent, isInterrupted ? "skipped" : "aborted", "skipped");
}

/** The model has been asked, in whatever life. AttemptPlan its agent wakes it. */
const asked = (of: (id: string) => Script) => async (_: Agent, run: Run) =>
  met(async () => {
    await run.stub().listSubmissions();
    return modelCalls.get(ask(of(run.id)));
  });

const ended = async (_: Agent, run: Run) => met(() => isAtRest(run.stub()));

const SUBMISSIONS: readonly ThinkScenario[] = [
  {
    name: "L1 runTurn as a submission",
    verbs: ["runTurn", "submitMessages"],
    soonAfter: ACCEPTED,
    stride: 101,
    prepare: (agent) => agent.listSubmissions(),
    steps: [
      (agent, { id }) =>
        // Over RPC an overloaded method has its last form only.
        agent.runTurn({
          mode: "submit",
          input: ask(script(id)),
          idempotencyKey: id,
        } as never) as never,
    ],
    check: async (agent, { id }) => [
      ...(await statusesAre(agent, "completed")),
      ...differs("the model has said", await replied(agent), id),
      ...differs("main has", await said(agent), [ask(script(id))]),
    ],
  },
  {
    name: "L1 L4 submitMany",
    verbs: ["submitMany"],
    soonAfter: ACCEPTED,
    stride: 163,
    prepare: (agent) => agent.listSubmissions(),
    steps: [
      (agent, { id }) =>
        agent.submitMany(
          ["one", "two"].map((which) => ({
            messages: [message(script(`${id} ${which}`), `${id}-${which}`)],
            options: { idempotencyKey: `${id}-${which}` },
          })),
        ) as never,
    ],
    check: async (agent, { id }) => [
      ...(await statusesAre(agent, "completed", "completed")),
      ...differs(
        "main has",
        await said(agent),
        ["one", "two"].map((which) => ask(script(`${id} ${which}`))),
      ),
    ],
  },
  {
    name: "L5 cancelSubmission of one that runs, and of one that waits behind it",
    verbs: ["cancelSubmission", "submitMessages"],
    soonAfter: SETTLED,
    stride: 97,
    prepare: async (agent, run) => {
      await submit(endless)(agent, run);
      await submitBehind()(agent, run);
      await asked(endless)(agent, run);
    },
    steps: [
      (agent, { id }) => agent.cancelSubmission(`${id}-next`) as never,
      (agent, { id }) => agent.cancelSubmission(id, "not needed") as never,
    ],
    check: async (agent, { id }) => [
      ...(await statusesAre(agent, "aborted", "aborted")),
      ...((await said(agent)).includes(ask(script(`${id}-next`)))
        ? ["L5 the one that waited is in the conversation"]
        : []),
    ],
  },
  {
    name: "L3 retrySubmission",
    verbs: ["retrySubmission"],
    soonAfter: ACCEPTED,
    stride: 101,
    prepare: async (agent, run) => {
      await submit(endless)(agent, run);
      await submitBehind()(agent, run);
      await agent.cancelSubmission(`${run.id}-next`);
      await agent.cancelSubmission(run.id);
      await ended(agent, run);
    },
    steps: [(agent, { id }) => agent.retrySubmission(`${id}-next`) as never],
    check: async (agent, { id }) => [
      ...(await statusesAre(agent, "aborted", "aborted", "completed")),
      ...differs(
        "of it main has",
        (await said(agent)).filter((text) => text === ask(script(`${id}-next`))).length,
        1,
      ),
    ],
  },
  {
    name: "L9 deleteSubmission and deleteSubmissions",
    verbs: ["deleteSubmission", "deleteSubmissions"],
    soonAfter: FORGOTTEN,
    stride: 5,
    prepare: async (agent, run) => {
      await submit(script)(agent, run);
      await submitBehind()(agent, run);
      await ended(agent, run);
    },
    steps: [
      (agent, { id }) => agent.deleteSubmission(id) as never,
      (agent) => agent.deleteSubmissions() as never,
    ],
    check: (agent) => statusesAre(agent),
  },
  {
    name: "L5 clearThread with a turn that runs, and one behind it",
    verbs: ["clearThread"],
    soonAfter: SKIPPED,
    stride: 17,
    prepare: async (agent, run) => {
      await submit(endless, { thread: "side" })(agent, run);
      await submitBehind({ thread: "side" })(agent, run);
      await asked(endless)(agent, run);
    },
    steps: [(agent) => agent.clearThread("side")],
    check: async (agent) => [
      ...(await statusesAre(agent, "aborted", "skipped")),
      ...differs("the thread has", await said(agent, "side"), []),
    ],
  },
  {
    name: "L1 resetTurnState with a turn that runs, and one behind it",
    verbs: ["resetTurnState"],
    soonAfter: SKIPPED,
    stride: 83,
    prepare: async (agent, run) => {
      await submit(slow)(agent, run);
      await submitBehind()(agent, run);
      await asked(slow)(agent, run);
    },
    steps: [(agent) => agent.resetTurns()],
    check: (agent, { starts }) => endedByReset(agent, starts()),
  },
  {
    name: "L5 clearMessages with a turn that runs, and one behind it",
    verbs: ["clearMessages"],
    soonAfter: SKIPPED,
    stride: 41,
    prepare: async (agent, run) => {
      await submit(slow)(agent, run);
      await submitBehind()(agent, run);
      await asked(slow)(agent, run);
    },
    steps: [(agent) => agent.clearMessages()],
    check: async (agent, { starts }) => [
      ...(await endedByReset(agent, starts())),
      ...differs("the conversation has", await said(agent, "main"), []),
    ],
  },
];

/** So far off that it runs by hand only. */
const YEARLY = "every year on january 1 at 00:00" as const;
const TASK = "digest";

/** The agent declares one task, which asks it. */
async function declare(agent: Agent, { id }: Run): Promise<void> {
  const digest = { schedule: YEARLY, prompt: ask(script(id)) };
  declared.set(id, { tasks: () => defineScheduledTasks({ digest }) });
  await capabilitiesOf(agent).schedules.list();
}

const SCHEDULES: readonly ThinkScenario[] = [
  {
    name: "S1 S5 triggerScheduledTask with a prompt",
    verbs: ["schedules.trigger"],
    soonAfter: RUN,
    stride: 101,
    prepare: declare,
    steps: [(agent, { id }) => capabilitiesOf(agent).schedules.trigger(TASK, { key: id }) as never],
    check: async (agent, { id }) => [
      ...(await statusesAre(agent, "completed")),
      ...differs("main has", await said(agent), [ask(script(id))]),
      ...differs(
        "its runs are",
        (await capabilitiesOf(agent).schedules.runs(TASK)).items.map(({ status }) => status),
        ["completed"],
      ),
    ],
  },
  {
    name: "S1 S5 backfillScheduledTask",
    verbs: ["schedules.backfill"],
    soonAfter: RUN,
    stride: 163,
    prepare: declare,
    steps: [
      (agent) =>
        capabilitiesOf(agent).schedules.backfill(TASK, {
          from: new Date("2024-12-01T00:00:00Z"),
          to: new Date("2026-02-01T00:00:00Z"),
        }) as never,
    ],
    check: async (agent) => [
      ...(await statusesAre(agent, "completed", "completed")),
      ...differs("it has runs", (await capabilitiesOf(agent).schedules.runs(TASK)).items.length, 2),
    ],
  },
  {
    name: "S5 pauseScheduledTask, resumeScheduledTask, skipNextScheduledRun",
    verbs: ["schedules.pause", "schedules.resume", "schedules.skipNext"],
    soonAfter: RUN,
    stride: 11,
    prepare: declare,
    steps: [
      (agent) => capabilitiesOf(agent).schedules.pause(TASK, "a holiday"),
      (agent) => capabilitiesOf(agent).schedules.resume(TASK),
      (agent) => capabilitiesOf(agent).schedules.skipNext(TASK) as never,
    ],
    check: async (agent) => {
      const task = await capabilitiesOf(agent).schedules.inspect(TASK);
      const skipped = (await capabilitiesOf(agent).schedules.runs(TASK)).items.map(
        ({ status }) => status,
      );
      // A caller without an answer skips the one after it, too.
      return [
        ...differs("it is paused", task?.state === "paused", false),
        ...differs("it is left out", skipped.length > 0 && skipped.length < 3, true),
        ...differs("all of them are", [...new Set(skipped)], ["skipped"]),
      ];
    },
  },
  {
    name: "S4 internal_reconcileScheduledTasks",
    verbs: ["internal_reconcileScheduledTasks"],
    soonAfter: DECLARED,
    stride: 5,
    prepare: declare,
    steps: [
      async (agent, { id }) => {
        const other = { schedule: YEARLY, prompt: ask(script(id)) };
        declared.set(id, { tasks: () => defineScheduledTasks({ other }) });
        await agent.internal_reconcileScheduledTasks();
      },
    ],
    check: async (agent) =>
      differs(
        "its tasks are",
        (await capabilitiesOf(agent).schedules.list()).items.map(({ taskId }) => taskId),
        ["other"],
      ),
  },
  {
    name: "S4 removeScheduledTask",
    verbs: ["schedules.remove"],
    soonAfter: DECLARED,
    stride: 5,
    prepare: async (agent, run) => {
      await declare(agent, run);
      declared.set(run.id, { tasks: () => ({}) });
      await agent.internal_reconcileScheduledTasks();
    },
    steps: [(agent) => capabilitiesOf(agent).schedules.remove(TASK) as never],
    check: async (agent) =>
      differs("it is removed again", await capabilitiesOf(agent).schedules.remove(TASK), false),
  },
];

const deadLetters = true;
/** `onEnd` of the agent takes nothing. */
const refused = { notify: [method("onEnd", { policy: { maxAttempts: 1 } })] };
/** Nobody has it, as the name says. */
const NOWHERE = "https://hooks.invalid/ended";

const lettersAre = async (agent: Agent, wanted: number) =>
  differs("the dead letters are", await capabilitiesOf(agent).outbox.countDeadLetters(), wanted);

/** A turn has ended, and its end could not be delivered. */
const unheard = async (agent: Agent, run: Run) => {
  await submit(script, refused)(agent, run);
  await met(async () => (await capabilitiesOf(run.stub()).outbox.countDeadLetters()) === 1);
};

const DELIVERIES: readonly ThinkScenario[] = [
  {
    name: "O3 redriveDeadLetter and redriveDeadLetters of what is refused again",
    verbs: ["outbox.redrive", "outbox.redriveAll"],
    soonAfter: BURIED,
    stride: 17,
    expect: { deadLetters },
    prepare: unheard,
    steps: [
      async (agent) => {
        const [letter] = (await capabilitiesOf(agent).outbox.listDeadLetters()).items;
        if (letter) await capabilitiesOf(agent).outbox.redrive(letter.id);
      },
      ended,
      (agent) => capabilitiesOf(agent).outbox.redriveAll({ since: new Date(0) }) as never,
      ended,
    ],
    check: (agent) => lettersAre(agent, 1),
  },
  {
    name: "O3 deleteDeadLetter",
    verbs: ["outbox.deleteDeadLetter"],
    soonAfter: ANY,
    stride: 5,
    expect: { deadLetters },
    prepare: unheard,
    steps: [
      async (agent) => {
        const [letter] = (await capabilitiesOf(agent).outbox.listDeadLetters()).items;
        if (letter) await capabilitiesOf(agent).outbox.deleteDeadLetter(letter.id);
      },
    ],
    check: (agent) => lettersAre(agent, 0),
  },
  {
    name: "O3 deleteDeadLetters",
    verbs: ["outbox.deleteDeadLetters"],
    soonAfter: ANY,
    stride: 5,
    expect: { deadLetters },
    prepare: unheard,
    steps: [
      (agent) =>
        capabilitiesOf(agent).outbox.deleteDeadLetters({
          before: new Date(Date.now() + 60_000),
        }) as never,
    ],
    check: (agent) => lettersAre(agent, 0),
  },
  {
    name: "O3 disableEndpoint and enableEndpoint",
    verbs: ["outbox.disableEndpoint", "outbox.enableEndpoint"],
    soonAfter: ANY,
    stride: 19,
    expect: { deadLetters },
    prepare: async (agent, run) => {
      await capabilitiesOf(agent).outbox.disableEndpoint(NOWHERE, "not yet");
      await submit(script, { notify: [webhook(NOWHERE, { secret: "HOOK_SECRET" })] })(agent, run);
      await met(async () => (await capabilitiesOf(run.stub()).outbox.countDeadLetters()) === 1);
    },
    steps: [
      (agent) => capabilitiesOf(agent).outbox.enableEndpoint(NOWHERE) as never,
      (agent) => capabilitiesOf(agent).outbox.disableEndpoint(NOWHERE, "by hand"),
    ],
    check: async (agent) => [
      ...(await lettersAre(agent, 1)),
      ...differs(
        "the endpoint is",
        (await capabilitiesOf(agent).outbox.inspectEndpoint(NOWHERE)).state,
        "disabled",
      ),
    ],
  },
];

playThinkMatrix(PLAYED["crash-turns"], [...SUBMISSIONS, ...SCHEDULES, ...DELIVERIES]);
