/**
 * A crash at every write and arrival of the waits. Each wait is closed once, its workflow gets one result, and work that
 * runs for it continues or is stopped.
 */

import { env } from "cloudflare:workers";
import { WebhookWaits } from "../../../src/features/inbound/waits/webhook-waits.ts";
import { stepKey } from "../../../src/workflow/names.ts";
import { Approvals, approvalRequest } from "../../../src/workflow/waits/kinds/approval.ts";
import type { Closing, StoredKind, Wait } from "../../../src/workflow/waits/protocol.ts";
import { Waits } from "../../../src/workflow/waits/waits.ts";
import { type Planned, type Plans, planned, playMatrix } from "../../support/crash/matrix.ts";
import {
  differs,
  inObject,
  PerPlay,
  prepared,
  surely,
  wakeAll,
} from "../../support/crash/objects.ts";
import { until } from "../../support/given.ts";
import { jobsIn } from "../../support/jobs.ts";
import { sleep } from "../../support/ledger.ts";
import {
  endEvents,
  type WaitsObject,
  type WaitsScript,
  waitsScripts,
} from "../../support/objects/waits-object.ts";
import { ask } from "../../support/waits.ts";

type Run = { readonly id: string };

type Scenario = {
  readonly verbs: readonly string[];
  /** The kind of `codemode`. It is called in the constructor of the object, which has no waits yet. */
  readonly kind?: (object: WaitsObject, record: PlayRecord) => Partial<StoredKind>;
  readonly steps: readonly ((object: WaitsObject, run: Run, record: PlayRecord) => unknown)[];
  /** The statuses of the waits, oldest first. */
  readonly ends: readonly Wait["status"][];
  /** How many events the workflow gets, by their ids. */
  readonly eventCount: number;
  /** Further problems at the end. */
  readonly also?: (object: WaitsObject, run: Run, record: PlayRecord) => Promise<string[]>;
  readonly soonAfter?: RegExp;
};

/** What a play has seen outside of its object. */
class PlayRecord {
  /** Stops that have ended. */
  stops = 0;
  /** The wait's state at each drive. */
  readonly states: unknown[] = [];
  /** The workflow was terminated by another caller. */
  isGone = false;
  /** The result of a driven wait is there. */
  isThere = false;
  /** How far the object's clock is ahead. */
  aheadMs = 0;
}

const DONE: Closing = { status: "completed", result: { answer: 42 } };
const EXPIRED: Closing = { status: "expired", result: null };
const CLOSED = /UPDATE perdure_jobs SET state/;
const OPENED = /INTO perdure_jobs/;
const DAY = 86_400_000;

function plan(scenario: Scenario): Planned {
  const plays = new PerPlay(() => new PlayRecord());
  const { verbs, steps, soonAfter = OPENED } = scenario;
  return planned<WaitsObject>({
    verbs,
    soonAfter,
    objects: prepared(env.WaitsObject, (name) =>
      waitsScripts.set(name, scriptOf(scenario, plays.of(name))),
    ),
    steps: steps.map((step) => (stub: object, run: Run) => {
      return inObject(stub, async (object: WaitsObject) => {
        await step(object, run, plays.of(run.id));
      });
    }),
    isOver: (stub) => inObject(stub, (_, ctx) => isOver(ctx)),
    touch: wakeAll,
    check: (_, run) =>
      surely(() =>
        inObject(run.stub(), async (object: WaitsObject, ctx) => [
          ...problemsOf(scenario, run, ctx),
          ...((await scenario.also?.(object, run, plays.of(run.id))) ?? []),
        ]),
      ),
    // Where the wait was closed before, the wake at its deadline is left to lapse.
    expect: { alarm: true },
  });
}

function scriptOf({ kind }: Scenario, record: PlayRecord): WaitsScript {
  return {
    aheadMs: () => record.aheadMs,
    isGone: () => record.isGone,
    deliver: () => sleep(5),
    kinds: (object) => ({
      codemode: { answersLaterRuns: () => true, ...kind?.(object, record) },
    }),
  };
}

/** Nothing is open, and nothing is left to stop or to deliver. */
function isOver({ storage: { sql } }: DurableObjectState): boolean {
  const isLive = jobsIn(sql).some(({ due_at }) => due_at !== null);
  return !isLive && sql.exec("SELECT 1 FROM perdure_outbox").toArray().length === 0;
}

function problemsOf(
  { ends, eventCount }: Scenario,
  { id }: Run,
  { storage: { sql } }: DurableObjectState,
) {
  const jobs = jobsIn(sql).toSorted(
    (one, other) =>
      Number(one.created_at) - Number(other.created_at) || Number(one.seq) - Number(other.seq),
  );
  const statuses = jobs.map(({ reason }) => reason ?? "open");
  const came = endEvents.get(id) ?? [];
  const events = new Map(came.map((one) => [one.id, JSON.stringify(one.data)]));
  const isSame = came.every((one) => events.get(one.id) === JSON.stringify(one.data));
  const isRight = events.size === eventCount && isSame;
  return [
    ...differs("W3 the waits", statuses, ends),
    ...(isRight ? [] : [`O2 the workflow was told under ${events.size} ids, not ${eventCount}`]),
  ];
}

/** Opens the wait of the play's one step, or finds it. */
function open({ waits }: WaitsObject, { id }: Run, rest: Parameters<typeof ask>[0] = {}) {
  return waits.open(ask({ instance: id, ...rest }));
}

const approve = { request: approvalRequest({ title: "Pay" }) };
const driven = { kind: "codemode" } as const;
/** With a key as that of a step, by which the waits of a run are found. */
const keyed = ({ id }: Run) => ({
  idempotencyKey: stepKey({
    kind: "approval",
    ...{ workflowName: "W", workflowId: id, stepName: "pay", key: undefined },
  }),
});
const instance = ({ id }: Run) => ({ workflow: "W", instance: id });

/** Later steps are about the wait of the first one: opened again, it is found. */
const waitOf = async (object: WaitsObject, run: Run, rest: Parameters<typeof ask>[0] = {}) =>
  (await open(object, run, rest)).waitId;

const WAITS: Plans = {
  "a wait is opened, and closed": plan({
    verbs: ["Waits.open", "Waits.settle"],
    soonAfter: CLOSED,
    steps: [
      (object, run) => open(object, run),
      async (object, run) => object.waits.settle(await waitOf(object, run), DONE),
    ],
    ends: ["completed"],
    eventCount: 1,
  }),
  "a wait of which the wait is over": plan({
    verbs: ["Waits.close"],
    soonAfter: CLOSED,
    steps: [
      (object, run) => open(object, run),
      async (object, run) => object.waits.close({ waitId: await waitOf(object, run) }, EXPIRED),
    ],
    ends: ["expired"],
    eventCount: 0,
  }),
  "a wait that nobody asks for any more": plan({
    verbs: ["Waits.open"],
    steps: [
      (object, run) => open(object, run),
      (_, __, record) => {
        record.aheadMs = 2 * DAY;
      },
    ],
    ends: ["expired"],
    eventCount: 0,
  }),
  "a wait whose end the workflow refuses, and asks for in a later run": plan({
    verbs: ["Waits.refuse"],
    soonAfter: /SET status = 'failed'/,
    kind: () => ({ answersLaterRuns: ({ status }) => status === "completed" }),
    steps: [
      async (object, run) => object.waits.settle(await waitOf(object, run, driven), DONE),
      async (object, run) => object.waits.refuse([await waitOf(object, run, driven)]),
      async (object, run) => {
        const again = await waitOf(object, run, { ...driven, run: "run-2" });
        await object.waits.settle(again, DONE);
      },
    ],
    ends: ["failed", "completed"],
    eventCount: 2,
  }),
  "a wait that is let go, and asked for in a later run": plan({
    verbs: [],
    soonAfter: /SET key = NULL/,
    steps: [
      async (object, run) => object.waits.settle(await waitOf(object, run, driven), DONE),
      async ({ waits }) => {
        const {
          items: [first],
        } = await waits.list({ kind: "codemode", limit: 1 });
        waits.store.releaseKey(first?.waitId ?? "");
      },
      async (object, run) => {
        const again = await waitOf(object, run, { ...driven, run: "run-2" });
        await object.waits.settle(again, DONE);
      },
    ],
    ends: ["completed", "completed"],
    eventCount: 2,
  }),
  "a wait whose workflow is terminated": plan({
    verbs: ["Waits.cancelFor"],
    kind: (_, record) => ({
      stop: async () => {
        await sleep(2);
        record.stops++;
      },
    }),
    soonAfter: CLOSED,
    steps: [
      (object, run) => open(object, run, driven),
      (object, run) => object.waits.cancelFor(instance(run), "it was terminated"),
    ],
    ends: ["cancelled"],
    eventCount: 0,
    also: async (_, __, { stops }) => (stops > 0 ? [] : ["W5 nothing was stopped"]),
  }),
  "a wait whose run ends": plan({
    verbs: ["Waits.endRun"],
    soonAfter: CLOSED,
    steps: [
      (object, run) => open(object, run, keyed(run)),
      (object, run) => object.waits.endRun(instance(run)),
    ],
    ends: ["cancelled"],
    eventCount: 0,
  }),
  "a wait whose workflow is restarted, and that the new run does not ask for": plan({
    verbs: ["Waits.restartRun"],
    soonAfter: /SET run/,
    steps: [
      (object, run) => open(object, run, keyed(run)),
      (object, run) => object.waits.restartRun(instance(run), async () => {}),
      (object, run) => object.waits.endRun(instance(run)),
    ],
    ends: ["cancelled"],
    eventCount: 0,
  }),
  "a wait whose workflow is gone, and nobody was told": plan({
    verbs: ["Waits.cancelIfGone"],
    soonAfter: CLOSED,
    steps: [
      (object, run) => open(object, run),
      async (object, run, record) => {
        record.isGone = true;
        const {
          items: [wait],
        } = await object.waits.list({ kind: "approval", instance: run.id, limit: 1 });
        if (wait) await object.waits.cancelIfGone(wait);
      },
    ],
    ends: ["cancelled"],
    eventCount: 0,
  }),
};

/** A kind that is driven: it notes its progress and waits for its result. */
const DRIVEN: Plans = {
  "a driven wait notes how far it is, and is nudged": plan({
    verbs: ["Waits.note", "Waits.nudge"],
    soonAfter: /SET state/,
    kind: (object, record) => ({
      drive: async ({ waitId, state }) => {
        record.states.push(state ?? null);
        if (state === undefined) await object.waits.note(waitId, "begun");
        if (record.isThere) await object.waits.settle(waitId, DONE);
        return null;
      },
    }),
    steps: [
      (object, run) => open(object, run, driven),
      async (object, run, record) => {
        await until(() => record.states.length > 0);
        record.isThere = true;
        await object.waits.nudge(await waitOf(object, run, driven));
      },
    ],
    ends: ["completed"],
    eventCount: 1,
  }),
  "a wait inside another": plan({
    verbs: ["Waits.openInside"],
    kind: (object) => ({
      drive: async (wait) => {
        const inner = await object.waits.openInside(wait, {
          ...{ kind: "approval", ...approve },
          key: `${wait.waitId}-inner`,
        });
        if (inner && inner.status !== "open") await object.waits.settle(wait.waitId, DONE);
        return null;
      },
    }),
    soonAfter: CLOSED,
    steps: [
      (object, run) => open(object, run, driven),
      async (object, run) => {
        const key = `${await waitOf(object, run, driven)}-inner`;
        const inner = await until(() => object.waits.findByKey(key));
        await object.approvals.grant(inner.waitId, {});
      },
    ],
    ends: ["completed", "completed"],
    eventCount: 1,
  }),
};

const APPROVALS: Plans = {
  "an approval is granted": plan({
    verbs: ["Approvals.grant"],
    soonAfter: CLOSED,
    steps: [
      (object, run) => open(object, run, approve),
      async (object, run) =>
        object.approvals.grant(await waitOf(object, run, approve), { by: "me" }),
    ],
    ends: ["completed"],
    eventCount: 1,
  }),
  "an approval is rejected": plan({
    verbs: ["Approvals.reject"],
    soonAfter: CLOSED,
    steps: [
      (object, run) => open(object, run, approve),
      async (object, run) => {
        await object.approvals.reject(await waitOf(object, run, approve), { reason: "no" });
      },
    ],
    ends: ["rejected"],
    eventCount: 1,
  }),
  "an approval whose payload the step refuses": plan({
    verbs: ["Waits.open"],
    soonAfter: /SET status = 'failed'/,
    steps: [
      (object, run) => open(object, run, approve),
      async (object, run) => {
        const { items: all } = await object.waits.list({
          kind: "approval",
          instance: run.id,
          limit: 10,
        });
        const waitId = all.at(-1)?.waitId ?? "";
        await object.approvals.grant(waitId, {});
        const again = { ...approve, refuses: waitId };
        const { waitId: second } = await open(object, run, again);
        await object.approvals.grant(second, {});
      },
    ],
    ends: ["failed", "completed"],
    eventCount: 2,
  }),
  "an approval that a later run asks for otherwise": plan({
    verbs: ["Waits.open"],
    soonAfter: CLOSED,
    steps: [
      (object, run) => open(object, run, approve),
      async (object, run) => {
        const request = approvalRequest({ title: "Pay more" });
        const later = { request, run: "run-2" };
        await object.approvals.grant(await waitOf(object, run, later), {});
      },
    ],
    ends: ["cancelled", "completed"],
    eventCount: 1,
  }),
};

const webhook = {
  kind: "webhook",
  request: { from: "stripe", match: { order: 7 }, lookbackMs: DAY },
} as const;
const paid = (id: string) => ({
  ...{ source: "stripe", id, type: "paid", body: { order: 7 } },
  receivedAt: Date.now(),
});
const byUrl = { kind: "webhook", request: { url: true } } as const;
/** The log of arrivals and the waits agree, whatever was cut off between them. */
const isInStep = async ({ arrivals, waits }: WaitsObject, { id }: Run) => {
  const { items: all } = await waits.list({ kind: "webhook", instance: id, limit: 10 });
  const ended = all.filter(({ result }) => result !== undefined).map(({ waitId }) => waitId);
  const logged = Object.values(arrivals.waits()).flat();
  return differs("O1 the log says that they ended", logged.toSorted(), ended.toSorted());
};

const WEBHOOKS: Plans = {
  "a wait that an arrival ends": plan({
    verbs: ["WebhookWaits.match", "Waits.settleWithin"],
    soonAfter: CLOSED,
    steps: [
      (object, run) => open(object, run, webhook),
      (object, run) => object.accept(paid(`of-${run.id}`)),
    ],
    ends: ["completed"],
    eventCount: 1,
    also: isInStep,
  }),
  "a wait for an arrival that came before, and that its step refuses": plan({
    verbs: ["WebhookWaits.endAtOpen", "WebhookWaits.topicOf"],
    soonAfter: CLOSED,
    steps: [
      (object, run) => object.accept(paid(`first-${run.id}`)),
      (object, run) => open(object, run, webhook),
      (object, run) => object.accept(paid(`second-${run.id}`)),
      async (object, run) => {
        const { items: all } = await object.waits.list({
          kind: "webhook",
          instance: run.id,
          limit: 10,
        });
        await open(object, run, { ...webhook, refuses: all.at(-1)?.waitId ?? "" });
      },
    ],
    ends: ["failed", "completed"],
    eventCount: 0,
    also: isInStep,
  }),
  "a wait that a request to its URL ends": plan({
    verbs: ["WebhookWaits.receive", "WebhookWaits.receiptOf"],
    soonAfter: CLOSED,
    steps: [
      (object, run) => open(object, run, byUrl),
      async (object, run) => {
        const { topic = "" } = (await object.waits.find(await waitOf(object, run, byUrl))) ?? {};
        const body = { n: 1 };
        const { outcome } = await object.webhooks.receive({
          topic,
          hash: "h",
          body,
          receivedAt: 1,
        });
        if (outcome === "gone") throw new Error("The request was lost");
      },
    ],
    ends: ["completed"],
    eventCount: 1,
  }),
};

const READS = "reads only";

playMatrix(
  "W1 W2 W3 W5 O1",
  { ...WAITS, ...DRIVEN, ...APPROVALS, ...WEBHOOKS },
  {
    owners: { Waits, Approvals, WebhookWaits },
    harmless: {
      "Waits.install": "in the constructor, before anything is stored",
      "Waits.drive": "the alarm, which wakes every scenario",
      "Waits.onStart": "each life begins with it",
      "Waits.read": READS,
      "Waits.find": READS,
      "Waits.findByKey": READS,
      "Waits.kind": READS,
      "Waits.stored": READS,
      "Waits.check": READS,
      "Waits.list": READS,
      "Waits.store": READS,
      "WebhookWaits.check": READS,
      "WebhookWaits.answersLaterRuns": READS,
      "WebhookWaits.announce": "reports what has committed",
      "Approvals.list": READS,
      "Approvals.inspect": READS,
    },
  },
);
