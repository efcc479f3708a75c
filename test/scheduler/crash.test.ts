/**
 * A crash at every write of what a scheduler does. No occurrence is lost, none has two runs, and no attempt is made twice under
 * the same number.
 */

import { env } from "cloudflare:workers";
import type {
  ScheduledTask,
  ScheduledTaskContext,
  ScheduledTasks,
} from "../../src/scheduler/index.ts";
import { Scheduler } from "../../src/scheduler/index.ts";
import type { Turns } from "../../src/scheduler/types.ts";
import type { SubmissionInspection } from "../../src/submissions/types.ts";
import { type Planned, type Plans, planned, playMatrix } from "../support/crash/matrix.ts";
import {
  differs,
  inObject,
  PerPlay,
  prepared,
  rest,
  surely,
  wakeAll,
} from "../support/crash/objects.ts";
import { forever, sleep } from "../support/ledger.ts";
import {
  type SchedulerObject,
  type SchedulerScript,
  schedulerScripts,
} from "../support/objects/scheduler-object.ts";
import { at, fakeTurns, MINUTE, MONDAY, task } from "../support/scheduler.ts";

/** A number sets the clock, in minutes, and waits until nothing is open. */
type Step = number | ((object: SchedulerObject, state: PlayState) => unknown);

type Scenario = {
  readonly verbs: readonly string[];
  readonly tasks: (state: PlayState) => ScheduledTasks;
  readonly turns?: Turns;
  readonly steps: readonly Step[];
  /** The occurrences, in minutes, and the statuses of their runs. */
  readonly history: readonly string[];
  /** Further problems at the end. */
  readonly also?: (object: SchedulerObject) => Promise<string[]>;
};

/** What a play keeps outside of its object. It survives the crashes. */
class PlayState {
  readonly script: SchedulerScript;
  readonly calls: string[] = [];
  /** While it is set, held runs do not end, and the play does not wait for them. */
  isHeld = false;
  /** For declarations that change, and for what happens only once. */
  hasChanged = false;
  #storage: DurableObjectStorage | undefined;

  constructor(readonly scenario: Scenario) {
    this.script = {
      ...(scenario.turns && { turns: scenario.turns }),
      now: MONDAY,
      tasks: () => scenario.tasks(this),
      born: (_, ctx) => {
        this.#storage = ctx.storage;
      },
    };
  }

  /** Every handler calls it first. */
  readonly note = async ({ occurrenceKey, attempt }: ScheduledTaskContext): Promise<void> => {
    // A call that leaves the object waits until earlier writes are durable.
    await this.#storage?.sync();
    this.calls.push(`${occurrenceKey} #${attempt}`);
  };
}

/** The write that begins an attempt. */
const ATTEMPTED = /UPDATE perdure_runs/;
/** The write that fires an occurrence. */
const FIRED = /INTO perdure_runs/;
const CHANGED = /perdure_tasks/;

/** @param make makes a new scenario for each play, because it may have state */
function plan(make: () => Scenario, soonAfter = ATTEMPTED): Planned {
  const states = new PerPlay(() => new PlayState(make()));
  const { verbs, steps } = make();
  return planned<SchedulerObject>({
    verbs,
    soonAfter,
    objects: prepared(env.SchedulerObject, (name) =>
      schedulerScripts.set(name, states.of(name).script),
    ),
    steps: [
      async (_, run) => {
        await inside(run.stub(), () => {});
        // A crash may be on its scenario still, and nothing may have been stored before.
        await sleep(15);
        await inside(run.stub(), () => {});
      },
      ...steps.map((_, index) => async (_stub: object, run: { id: string; stub(): object }) => {
        const state = states.of(run.id);
        const step = state.scenario.steps[index] ?? 0;
        if (typeof step === "number") {
          state.script.now = MONDAY + step * MINUTE;
          await wakeAll(run.stub());
        } else await inside(run.stub(), (object) => step(object, state));
        await rest(
          () => run.stub(),
          () => isAtRest(run.stub(), state),
        );
      }),
    ],
    isOver: (stub, { id }) => isAtRest(stub, states.of(id)),
    touch: wakeAll,
    check: (_, run) =>
      surely(() => inside(run.stub(), (object) => problemsOf(object, states.of(run.id)))),
  });
}

/** Runs `work` in the object after its start, with its declarations read. */
function inside<R>(stub: object, work: (object: SchedulerObject) => R | Promise<R>): Promise<R> {
  return inObject(stub, async (object: SchedulerObject) => {
    await object.lifecycle.start();
    await object.scheduler.list({ occurrences: 0 });
    return work(object);
  });
}

/** Nothing is due, and only held runs are open. */
function isAtRest(stub: object, { script, isHeld }: PlayState): Promise<boolean> {
  return inObject(stub, (_, { storage: { sql } }) => {
    const due = sql.exec(
      "SELECT 1 FROM perdure_tasks WHERE paused_at IS NULL AND omitted_at IS NULL AND next_at <= ?",
      script.now ?? 0,
    );
    const open = sql.exec("SELECT 1 FROM perdure_runs WHERE ended_at IS NULL AND NOT ?", +isHeld);
    return due.toArray().length + open.toArray().length === 0;
  });
}

async function problemsOf(
  object: SchedulerObject,
  { calls, scenario }: PlayState,
): Promise<string[]> {
  const { items: runs } = await object.scheduler.runs("t");
  const found = runs
    .toReversed()
    .map(({ scheduledFor, status }) => `${at(scheduledFor)} ${status}`);
  return [
    ...differs("S1 the history", found, scenario.history),
    ...(new Set(calls).size < calls.length ? [`S1 called twice: ${calls.join(", ")}`] : []),
    ...((await scenario.also?.(object)) ?? []),
  ];
}

const one = (options: Parameters<typeof task>[1] = {}) => {
  return ({ note }: PlayState): ScheduledTasks => ({ t: task(note, options) });
};
const minutes = (count: number) => new Date(MONDAY + count * MINUTE);

/** The run of the first occurrence is held until it is released. */
function meeting(
  overlap: NonNullable<ScheduledTask["overlap"]>,
  history: readonly string[],
): Scenario {
  return {
    verbs: [],
    tasks: (state) => ({
      t: task(
        async (context) => {
          await state.note(context);
          while (state.isHeld && at(context.scheduledFor) === 10) await sleep(5);
        },
        { overlap },
      ),
    }),
    steps: [
      (_, state) => {
        state.isHeld = true;
      },
      10,
      20,
      (_, state) => {
        state.isHeld = false;
      },
      30,
    ],
    history,
  };
}

/** A ledger that never forgets a submission. All end at once, or when it is told to. */
function givenLedger({ endsAtOnce }: { endsAtOnce: boolean }) {
  const known = new Set<string>();
  let status: "running" | "completed" = endsAtOnce ? "completed" : "running";
  const turns = fakeTurns({
    accept: async (_, { idempotencyKey = "" }) => {
      known.add(idempotencyKey);
      return { submissionId: idempotencyKey };
    },
    inspect: async (id) => (known.has(id) ? { status } : null),
    cancel: async () => {},
  });
  const end = (scheduler: Scheduler) => {
    status = "completed";
    for (const submissionId of known)
      scheduler.submissionEnded({ submissionId, status } as SubmissionInspection);
  };
  return { turns, end };
}

const FIRING: Plans = {
  "two occurrences": plan(() => ({
    verbs: [],
    tasks: one(),
    steps: [10, 20],
    history: ["10 completed", "20 completed"],
  })),
  "an attempt that fails, and is tried again": plan(() => ({
    verbs: [],
    tasks: (state) => ({
      t: task(async (context) => {
        await state.note(context);
        if (state.hasChanged) return;
        state.hasChanged = true;
        throw new Error("once");
      }),
    }),
    steps: [10],
    history: ["10 completed"],
  })),
  "a run that fails, and pauses its task": plan(() => ({
    verbs: [],
    tasks: (state) => ({
      t: task(
        async (context) => {
          await state.note(context);
          throw new Error("always");
        },
        { retry: { maxAttempts: 1 }, pauseOnFailure: true },
      ),
    }),
    steps: [10, 20],
    history: ["10 failed"],
    also: async ({ scheduler }) => {
      const { state } = (await scheduler.inspect("t")) ?? {};
      return state === "paused" ? [] : [`S5 it is ${state}`];
    },
  })),
  "a prompt": plan(() => ({
    verbs: [],
    tasks: () => ({ t: { schedule: "every 10 minutes", prompt: "report" } }),
    turns: givenLedger({ endsAtOnce: true }).turns,
    steps: [10],
    history: ["10 completed"],
  })),
  "a prompt that ends later": plan(() => {
    const ledger = givenLedger({ endsAtOnce: false });
    return {
      verbs: ["Scheduler.submissionEnded"],
      tasks: () => ({ t: { schedule: "every 10 minutes", prompt: "report" } }),
      turns: ledger.turns,
      steps: [
        (_, state) => {
          state.isHeld = true;
        },
        10,
        ({ scheduler }, state) => {
          state.isHeld = false;
          ledger.end(scheduler);
        },
        15,
      ],
      history: ["10 completed"],
    };
  }),
  "three caught up": plan(
    () => ({
      verbs: [],
      tasks: one({ catchUp: "all" }),
      steps: [35],
      history: ["10 completed", "20 completed", "30 completed"],
    }),
    FIRED,
  ),
  "the latest caught up": plan(() => ({
    verbs: [],
    tasks: one({ catchUp: "latest" }),
    steps: [35, 40],
    history: ["30 completed", "40 completed"],
  })),
  "those of a while caught up": plan(() => ({
    verbs: [],
    tasks: one({ catchUp: { all: "20 minutes" } }),
    steps: [35],
    history: ["20 completed", "30 completed"],
  })),
  "none caught up": plan(() => ({
    verbs: [],
    tasks: one({ catchUp: "none" }),
    steps: [35, 40],
    history: ["40 completed"],
  })),
  "one that meets another, and is skipped": plan(() =>
    meeting("skip", ["10 completed", "20 skipped", "30 completed"]),
  ),
  "one that meets another, and queues": plan(() =>
    meeting("queue", ["10 completed", "20 completed", "30 completed"]),
  ),
  "one that meets another, and runs beside it": plan(() =>
    meeting("allow", ["10 completed", "20 completed", "30 completed"]),
  ),
  "one that meets another, which makes room": plan(() => ({
    verbs: [],
    tasks: ({ note }) => ({
      t: task(
        async (context) => {
          await note(context);
          if (at(context.scheduledFor) === 10) await forever();
        },
        { overlap: "cancelPrevious" },
      ),
    }),
    steps: [
      (_, state) => {
        state.isHeld = true;
      },
      10,
      (_, state) => {
        state.isHeld = false;
        state.script.now = MONDAY + 20 * MINUTE;
      },
      20,
    ],
    history: ["10 cancelled", "20 completed"],
  })),
};

const OPERATED: Plans = {
  "a trigger": plan(() => ({
    verbs: ["Scheduler.trigger"],
    tasks: one(),
    steps: [({ scheduler }) => scheduler.trigger("t", { key: "k" }), 10],
    history: ["0 completed", "10 completed"],
  })),
  "a backfill": plan(
    () => ({
      verbs: ["Scheduler.backfill"],
      tasks: one({ catchUp: "none" }),
      steps: [
        35,
        ({ scheduler }) => scheduler.backfill("t", { from: minutes(0), to: minutes(35) }),
      ],
      history: ["10 completed", "20 completed", "30 completed"],
    }),
    FIRED,
  ),
  "a pause": plan(
    () => ({
      verbs: ["Scheduler.pause", "Scheduler.resume"],
      tasks: one(),
      steps: [
        ({ scheduler }) => scheduler.pause("t"),
        25,
        ({ scheduler }) => scheduler.resume("t"),
        30,
      ],
      history: ["30 completed"],
    }),
    CHANGED,
  ),
  "one that is left out": plan(
    () => ({
      verbs: ["Scheduler.skipNext"],
      tasks: one(),
      steps: [
        // A caller that got no reply checks first: called twice, it skips two.
        async ({ scheduler }) => {
          const { next } = (await scheduler.inspect("t")) ?? {};
          if (next && at(next) === 10) await scheduler.skipNext("t");
        },
        20,
      ],
      history: ["10 skipped", "20 completed"],
    }),
    FIRED,
  ),
  "an edit of the times, and a new task": plan(
    () => ({
      verbs: ["Scheduler.reconcile"],
      tasks: ({ note, hasChanged }) => ({
        t: task(note, { schedule: hasChanged ? "every 25 minutes" : "every 10 minutes" }),
        ...(hasChanged && { fresh: task(() => {}) }),
      }),
      steps: [
        10,
        ({ scheduler }, state) => {
          state.hasChanged = true;
          return scheduler.reconcile();
        },
        35,
      ],
      history: ["10 completed", "35 completed"],
    }),
    CHANGED,
  ),
  "a task that is not declared any more": plan(
    () => ({
      verbs: ["Scheduler.reconcile"],
      tasks: ({ note, hasChanged }) => ({
        t: task(note),
        ...(!hasChanged && { old: task(() => {}) }),
      }),
      steps: [
        10,
        ({ scheduler }, state) => {
          state.hasChanged = true;
          return scheduler.reconcile();
        },
        20,
      ],
      history: ["10 completed", "20 completed"],
      also: async (object) => {
        const ids = (await object.scheduler.list()).items.map(({ taskId }) => taskId);
        return differs("S4 what is declared", ids, ["t"]);
      },
    }),
    CHANGED,
  ),
  "an edit of the times while an occurrence is overdue": plan(
    () => ({
      verbs: ["Scheduler.reconcile"],
      tasks: ({ note, hasChanged }) => ({
        t: task(note, { schedule: hasChanged ? "every 25 minutes" : "every 10 minutes" }),
      }),
      steps: [
        ({ scheduler }, state) => {
          state.script.now = MONDAY + 12 * MINUTE;
          state.hasChanged = true;
          return scheduler.reconcile();
        },
        12,
        37,
      ],
      history: ["10 completed", "37 completed"],
    }),
    CHANGED,
  ),
  "a task that is omitted while an occurrence is overdue, and declared again": plan(
    () => ({
      verbs: ["Scheduler.reconcile"],
      tasks: ({ note, hasChanged }) => (hasChanged ? {} : { t: task(note) }) as ScheduledTasks,
      steps: [
        ({ scheduler }, state) => {
          state.script.now = MONDAY + 12 * MINUTE;
          state.hasChanged = true;
          return scheduler.reconcile();
        },
        25,
        ({ scheduler }, state) => {
          state.hasChanged = false;
          return scheduler.reconcile();
        },
        25,
        30,
      ],
      history: ["10 completed", "30 completed"],
    }),
    CHANGED,
  ),
  "a task that is removed": plan(
    () => ({
      verbs: ["Scheduler.remove"],
      tasks: ({ note, hasChanged }) => (hasChanged ? { t: task(note) } : {}) as ScheduledTasks,
      steps: [
        ({ scheduler }, state) => {
          state.hasChanged = true;
          return scheduler.reconcile();
        },
        10,
        ({ scheduler }, state) => {
          state.hasChanged = false;
          return scheduler.reconcile();
        },
        ({ scheduler }) => scheduler.remove("t"),
        ({ scheduler }, state) => {
          state.hasChanged = true;
          return scheduler.reconcile();
        },
        20,
      ],
      history: ["20 completed"],
    }),
    /DELETE FROM perdure_tasks/,
  ),
};

const READS = "reads only";

playMatrix(
  "S1 S3 S4 S5",
  { ...FIRING, ...OPERATED },
  {
    owners: { Scheduler },
    harmless: {
      "Scheduler.drive": "the alarm, which wakes every scenario",
      "Scheduler.onStart": "each start of the object begins with it",
      "Scheduler.adopt":
        "one transaction, which each start repeats until the other scheduler has disarmed",
      "Scheduler.list": READS,
      "Scheduler.inspect": READS,
      "Scheduler.runs": READS,
      "Scheduler.countBackfill": READS,
      "Scheduler.facts": READS,
    },
  },
);
