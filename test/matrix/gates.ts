/** What becomes of gates and approvals when the object dies: each verb, and what is under way for a gate. */

import { env } from "cloudflare:workers";
import { approvalRequest } from "../../src/waits/approvals.ts";
import type { Closing, Gate, GateKind, GateRequest } from "../../src/waits/types.ts";
import { ask } from "../support/gates.ts";
import {
  arrivals,
  type GatesObject,
  type GatesScript,
  gatesScripts,
} from "../support/gates-object.ts";
import { until } from "../support/given.ts";
import { sleep } from "../support/ledger.ts";
import { type Planned, type Plans, planned } from "./matrix.ts";
import { differs, given, inObject, PerPlay, surely, wakeAll } from "./objects.ts";

type Run = { readonly id: string };

type Way = {
  readonly verbs: readonly string[];
  /** Of the gates of kind `codemode`. It is asked in the construction of the object, which has no gates yet. */
  readonly kind?: (object: GatesObject, seen: Seen) => Partial<GateKind>;
  readonly steps: readonly ((object: GatesObject, run: Run, seen: Seen) => unknown)[];
  /** The statuses of the gates, oldest first. */
  readonly ends: readonly Gate["status"][];
  /** How often the workflow is told, as far as it can tell: by ids. */
  readonly told: number;
  /** What else is wrong in the end. */
  readonly also?: (object: GatesObject, run: Run, seen: Seen) => Promise<string[]>;
  readonly soonAfter?: RegExp;
};

/** What was seen outside of the object, in one play. */
class Seen {
  /** Stops that have come to their end. */
  stops = 0;
  /** What a drive has found in the gate's state, each time. */
  readonly states: unknown[] = [];
  /** The workflow was terminated, and its agent not told. */
  isGone = false;
  /** What a driven gate waits for has come. */
  isThere = false;
  /** How far the object's clock is ahead. */
  aheadMs = 0;
}

const DONE: Closing = { status: "completed", result: { answer: 42 } };
const EXPIRED: Closing = { status: "expired", result: null };
const CLOSED = /UPDATE perdure_gates SET status/;
const OPENED = /INTO perdure_gates/;
const DAY = 86_400_000;

function plan(way: Way): Planned {
  const plays = new PerPlay(() => new Seen());
  const { verbs, steps, soonAfter = OPENED } = way;
  return planned<GatesObject>({
    verbs,
    soonAfter,
    objects: given(env.GatesObject, (name) =>
      gatesScripts.set(name, scriptOf(way, plays.of(name))),
    ),
    steps: steps.map((step) => (stub: object, run: Run) => {
      return inObject(stub, async (object: GatesObject) => {
        await step(object, run, plays.of(run.id));
      });
    }),
    isOver: (stub) => inObject(stub, (_, ctx) => isOver(ctx)),
    touch: wakeAll,
    check: (_, run) =>
      surely(() =>
        inObject(run.stub(), async (object: GatesObject, ctx) => [
          ...problemsOf(way, run, ctx),
          ...((await way.also?.(object, run, plays.of(run.id))) ?? []),
        ]),
      ),
    // The wake of a day after its time is left to lapse where the gate was closed before.
    expect: { alarm: true },
  });
}

function scriptOf({ kind }: Way, seen: Seen): GatesScript {
  return {
    aheadMs: () => seen.aheadMs,
    isGone: () => seen.isGone,
    deliver: () => sleep(5),
    kinds: (object) => ({
      codemode: { answersLaterRuns: () => true, ...kind?.(object, seen) },
    }),
  };
}

/** Nothing is open, and nothing is left to stop or to tell. */
function isOver({ storage: { sql } }: DurableObjectState): boolean {
  const live = sql.exec(
    "SELECT 1 FROM perdure_gates WHERE done_at IS NULL UNION ALL SELECT 1 FROM perdure_outbox",
  );
  return live.toArray().length === 0;
}

function problemsOf({ ends, told }: Way, { id }: Run, { storage: { sql } }: DurableObjectState) {
  const rows = sql.exec<{ status: string }>("SELECT status FROM perdure_gates ORDER BY seq");
  const statuses = rows.toArray().map(({ status }) => status);
  const came = arrivals.get(id) ?? [];
  const events = new Map(came.map((one) => [one.id, JSON.stringify(one.data)]));
  const isSame = came.every((one) => events.get(one.id) === JSON.stringify(one.data));
  const isRight = events.size === told && isSame;
  return [
    ...differs("W3 the gates", statuses, ends),
    ...(isRight ? [] : [`O2 the workflow was told under ${events.size} ids, not ${told}`]),
  ];
}

/** The gate of the play's one step: opened, or found. */
function open({ gates }: GatesObject, { id }: Run, rest: Partial<GateRequest> = {}) {
  return gates.open(ask({ instance: id, ...rest }));
}

const approve = { request: approvalRequest({ title: "Pay" }) };
const driven = { kind: "codemode" } as const;
const instance = ({ id }: Run) => ({ workflow: "W", instance: id });

/** What each later step asks is about the gate that the first one has opened: asked for again, it is found. */
const gateOf = async (object: GatesObject, run: Run, rest: Partial<GateRequest> = {}) =>
  (await open(object, run, rest)).gateId;

const GATES: Plans = {
  "a gate is opened, and closed": plan({
    verbs: ["Gates.open", "Gates.close"],
    soonAfter: CLOSED,
    steps: [
      (object, run) => open(object, run),
      async (object, run) => object.gates.close(await gateOf(object, run), DONE),
    ],
    ends: ["completed"],
    told: 1,
  }),
  "a gate of which the wait is over": plan({
    verbs: ["Gates.expire"],
    soonAfter: CLOSED,
    steps: [
      (object, run) => open(object, run),
      async (object, run) => object.gates.expire(await gateOf(object, run), EXPIRED),
    ],
    ends: ["expired"],
    told: 0,
  }),
  "a gate that nobody asks for any more": plan({
    verbs: ["Gates.open"],
    steps: [
      (object, run) => open(object, run),
      (_, __, seen) => {
        seen.aheadMs = 2 * DAY;
      },
    ],
    ends: ["expired"],
    told: 0,
  }),
  "a gate whose end the workflow refuses, and asks for in a later run": plan({
    verbs: ["Gates.refuse"],
    soonAfter: /SET status = 'failed'/,
    kind: () => ({ answersLaterRuns: ({ status }) => status === "completed" }),
    steps: [
      async (object, run) => object.gates.close(await gateOf(object, run, driven), DONE),
      async (object, run) => object.gates.refuse(await gateOf(object, run, driven)),
      async (object, run) => {
        const again = await gateOf(object, run, { ...driven, run: "run-2" });
        await object.gates.close(again, DONE);
      },
    ],
    ends: ["failed", "completed"],
    told: 2,
  }),
  "a gate that is let go, and asked for in a later run": plan({
    verbs: ["Gates.release"],
    soonAfter: /idempotency_key = NULL/,
    steps: [
      async (object, run) => object.gates.close(await gateOf(object, run, driven), DONE),
      async ({ gates }) => {
        const [first] = await gates.list({ kind: "codemode", limit: 1 });
        await gates.release(first?.gateId ?? "");
      },
      async (object, run) => {
        const again = await gateOf(object, run, { ...driven, run: "run-2" });
        await object.gates.close(again, DONE);
      },
    ],
    ends: ["completed", "completed"],
    told: 2,
  }),
  "a gate whose workflow is terminated": plan({
    verbs: ["Gates.cancelFor"],
    kind: (_, seen) => ({
      stop: async () => {
        await sleep(2);
        seen.stops++;
      },
    }),
    soonAfter: CLOSED,
    steps: [
      (object, run) => open(object, run, driven),
      (object, run) => object.gates.cancelFor(instance(run), "it was terminated"),
    ],
    ends: ["cancelled"],
    told: 0,
    also: async (_, __, { stops }) => (stops > 0 ? [] : ["W5 nothing was stopped"]),
  }),
  "a gate whose workflow is gone, and nobody was told": plan({
    verbs: ["Gates.cancelIfGone"],
    soonAfter: CLOSED,
    steps: [
      (object, run) => open(object, run),
      async (object, run, seen) => {
        seen.isGone = true;
        const [gate] = await object.gates.list({ kind: "approval", instance: run.id, limit: 1 });
        if (gate) await object.gates.cancelIfGone(gate);
      },
    ],
    ends: ["cancelled"],
    told: 0,
  }),
};

/** Driven: notes how far it has come, and waits to be told that it is there. */
const DRIVEN: Plans = {
  "a driven gate notes how far it is, and is nudged": plan({
    verbs: ["Gates.note", "Gates.nudge"],
    soonAfter: /SET state/,
    kind: (object, seen) => ({
      drive: async ({ gateId, state }) => {
        seen.states.push(state ?? null);
        if (state === undefined) await object.gates.note(gateId, "begun");
        if (seen.isThere) await object.gates.close(gateId, DONE);
        return null;
      },
    }),
    steps: [
      (object, run) => open(object, run, driven),
      async (object, run, seen) => {
        await until(() => seen.states.length > 0, 5_000);
        seen.isThere = true;
        await object.gates.nudge(await gateOf(object, run, driven));
      },
    ],
    ends: ["completed"],
    told: 1,
  }),
  "a gate inside another": plan({
    verbs: ["Gates.openInside"],
    kind: (object) => ({
      drive: async (gate) => {
        const inner = await object.gates.openInside(gate, {
          ...{ kind: "approval", ...approve },
          gateId: `${gate.gateId}-inner`,
        });
        if (inner && inner.status !== "open") await object.gates.close(gate.gateId, DONE);
        return null;
      },
    }),
    soonAfter: CLOSED,
    steps: [
      (object, run) => open(object, run, driven),
      async (object, run) => {
        const inner = `${await gateOf(object, run, driven)}-inner`;
        await until(() => object.gates.find(inner), 5_000);
        await object.approvals.grant(inner, {});
      },
    ],
    ends: ["completed", "completed"],
    told: 1,
  }),
};

const APPROVALS: Plans = {
  "an approval is granted": plan({
    verbs: ["Approvals.grant"],
    soonAfter: CLOSED,
    steps: [
      (object, run) => open(object, run, approve),
      async (object, run) =>
        object.approvals.grant(await gateOf(object, run, approve), { by: "me" }),
    ],
    ends: ["completed"],
    told: 1,
  }),
  "an approval is rejected": plan({
    verbs: ["Approvals.reject"],
    soonAfter: CLOSED,
    steps: [
      (object, run) => open(object, run, approve),
      async (object, run) => {
        await object.approvals.reject(await gateOf(object, run, approve), { reason: "no" });
      },
    ],
    ends: ["rejected"],
    told: 1,
  }),
  "an approval whose payload the step refuses": plan({
    verbs: ["Gates.open"],
    soonAfter: /SET status = 'failed'/,
    steps: [
      (object, run) => open(object, run, approve),
      async (object, run) => {
        const all = await object.gates.list({ kind: "approval", instance: run.id, limit: 10 });
        const gateId = all.at(-1)?.gateId ?? "";
        await object.approvals.grant(gateId, {});
        const again = { ...approve, refuses: gateId };
        const { gateId: second } = await open(object, run, again);
        await object.approvals.grant(second, {});
      },
    ],
    ends: ["failed", "completed"],
    told: 2,
  }),
  "an approval that a later run asks for otherwise": plan({
    verbs: ["Gates.open"],
    soonAfter: CLOSED,
    steps: [
      (object, run) => open(object, run, approve),
      async (object, run) => {
        const request = approvalRequest({ title: "Pay more" });
        const later = { request, run: "run-2" };
        await object.approvals.grant(await gateOf(object, run, later), {});
      },
    ],
    ends: ["cancelled", "completed"],
    told: 1,
  }),
};

export const GATE_PLANS: Plans = { ...GATES, ...DRIVEN, ...APPROVALS };
