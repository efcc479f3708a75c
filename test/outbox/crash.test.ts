/**
 * A crash at every write and delivery of every way that an event can take through the outbox, and a second crash in what
 * follows. Nothing that was accepted is lost, and nothing that was rolled back arrives.
 */

import { env } from "cloudflare:workers";
import { NotNeededError } from "../../src/outbox/errors.ts";
import type { DeadLetter, Destination, OutboxSettings } from "../../src/outbox/index.ts";
import { Outbox, RefusedError, UndeliverableError } from "../../src/outbox/index.ts";
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
import { until } from "../support/given.ts";
import { sleep } from "../support/ledger.ts";
import {
  type OutboxObject,
  type OutboxScript,
  outboxScripts,
  type Sent,
} from "../support/objects/outbox-object.ts";
import { WEBHOOK, wakesOf, workflowNamed } from "../support/outbox.ts";

type Scenario = {
  readonly to: Destination;
  /** The ids of the events. One by default. */
  readonly ids?: readonly string[];
  readonly event?: unknown;
  readonly settings?: OutboxSettings;
  /** Throws for an attempt that fails. `nth` is 1 for the first one with this id. */
  readonly answer?: (nth: number, sent: Sent, record: PlayRecord) => void;
  /** What the operator does when everything is delivered or a dead letter. */
  readonly operator?: (
    object: OutboxObject,
    record: PlayRecord,
    ids: readonly string[],
  ) => Promise<unknown>;
  /** While it still waits to be delivered. */
  readonly isEarly?: boolean;
  readonly verbs?: readonly string[];
  /** Ids that end as dead letters and are never delivered. */
  readonly isBuried?: boolean;
  /** Ids that end as discarded and are never delivered: no workflow waits for them. */
  readonly isDiscarded?: boolean;
  /** Dead letters that are left at the end. */
  readonly left?: number;
  /** Its attempts are marked: an id is delivered once, or it is a dead letter that may have been delivered. */
  readonly isMarked?: boolean;
  /** Further problems of each event at the end, beside that it has arrived. */
  readonly check?: (record: PlayRecord) => string[];
  readonly soonAfter?: RegExp;
};

/** What a play has seen outside of its object. */
class PlayRecord {
  /** Every attempt that has arrived, in order. */
  readonly sent: Sent[] = [];
  readonly taken: Sent[] = [];
  readonly letters: DeadLetter[] = [];
  /** What `read()` returned for a reference. */
  readonly fetched: unknown[] = [];
  /** How often the caller has called put(), with or without a reply. */
  puts = 0;
  /** The operator has marked it received. */
  isRepaired = false;
}

const QUICK = { backoff: { base: 1, cap: 1 } } as const;
const SMALL = { a: 1 };
/** The write that ends a delivery. */
const TAKEN = /DELETE FROM perdure_outbox/;
/** The write that buries an entry. */
const BURIED = /INTO perdure_outbox_ended/;

function plan(scenario: Scenario): Planned {
  const { ids = ["e"], operator, verbs = [], soonAfter = TAKEN, left = 0 } = scenario;
  const plays = new PerPlay(() => new PlayRecord());
  const at = (id: string) => plays.of(id);
  return planned<OutboxObject>({
    verbs: ["Outbox.put", ...verbs],
    soonAfter,
    objects: prepared(env.OutboxObject, (name) =>
      outboxScripts.set(name, scriptOf(scenario, at(name))),
    ),
    steps: [
      (stub, { id }) => inObject(stub, (object: OutboxObject) => put(object, scenario, at(id))),
      ...(operator
        ? [
            async (_: object, run: { id: string; stub(): object }) => {
              const look = () => inObject(run.stub(), (_object, ctx) => isOver(ctx));
              if (!scenario.isEarly) await rest(() => run.stub(), look);
              await inObject(run.stub(), async (object: OutboxObject) => {
                await object.lifecycle.start();
                await operator(object, at(run.id), ids);
              });
            },
          ]
        : []),
    ],
    isOver: (stub) => inObject(stub, (_, ctx) => isOver(ctx)),
    touch: wakeAll,
    check: async (_, run) => {
      const letters = await surely(() =>
        inObject(run.stub(), ({ outbox }: OutboxObject) => outbox.countDeadLetters()),
      );
      const isQuiet = () =>
        inObject(run.stub(), async (_object, ctx) => {
          const { job, alarm } = await wakesOf(ctx);
          return job === null && alarm === null;
        });
      const isAsleep = await surely(() => until(isQuiet).catch(isQuiet));
      return [
        ...problemsOf(scenario, at(run.id)),
        ...(scenario.isMarked ? [] : differs("O3 the count of dead letters", letters, left)),
        ...differs(
          "O3 the discarded ones",
          await discardedOf(run),
          scenario.isDiscarded ? ids : [],
        ),
        ...(isAsleep ? [] : ["O5 it holds a job or an alarm"]),
      ];
    },
    // Those that are left are counted. Deleted ones are not stored anywhere, which is right.
    expect: {
      deadLetters: left > 0 || scenario.isBuried === true || scenario.isMarked === true,
    },
  });
}

/** Ids of the deliveries that are listed as discarded. */
async function discardedOf(run: { stub(): object }): Promise<string[]> {
  const { items: deliveries } = await surely(() =>
    inObject(run.stub(), ({ outbox }: OutboxObject) =>
      outbox.listDeliveries({ state: "discarded" }),
    ),
  );
  return deliveries.map(({ id }) => id).toSorted();
}

function scriptOf({ settings, answer, isMarked }: Scenario, record: PlayRecord): OutboxScript {
  return {
    settings: { ...settings, policy: { ...QUICK, ...settings?.policy } },
    ...(isMarked && { isTelegram: isMarked }),
    deliver: async (sent, _to, { outbox }, attempt) => {
      if (isMarked) await attempt.markSending();
      record.sent.push(sent);
      answer?.(record.sent.filter(({ id }) => id === sent.id).length, sent, record);
      record.taken.push(sent);
      if ("reference" in sent) record.fetched.push(await outbox.read(sent.id));
      // Its record is a commit of its own.
      await sleep(2);
    },
    onDeadLetter: async (letter) => {
      record.letters.push(letter);
      await sleep(2);
    },
  };
}

/** `ctx` is protected. */
type Inner = Pick<OutboxObject, "lifecycle" | "outbox"> & { readonly ctx: DurableObjectState };

async function put(
  object: OutboxObject,
  { to, ids = ["e"], event = SMALL }: Scenario,
  record: PlayRecord,
) {
  const { lifecycle, outbox, ctx } = object as unknown as Inner;
  await lifecycle.start();
  record.puts++;
  rollBack(ctx.storage, () => outbox.put(to, event, { id: "rolled back" }));
  ctx.storage.transactionSync(() => {
    for (const id of ids) outbox.put(to, event, { id });
  });
}

function rollBack(storage: DurableObjectStorage, work: () => void): void {
  const undo = new Error("undo");
  try {
    storage.transactionSync(() => {
      work();
      throw undo;
    });
  } catch (error) {
    if (error !== undo) throw error;
  }
}

/** Each event is delivered or buried, and the app is notified. */
function isOver({ storage: { sql } }: DurableObjectState): boolean {
  const open = sql.exec(
    "SELECT 1 FROM perdure_outbox UNION ALL SELECT 1 FROM perdure_outbox_ended WHERE is_notified = 0",
  );
  return open.toArray().length === 0;
}

function problemsOf(scenario: Scenario, record: PlayRecord): string[] {
  const { ids = ["e"], event = SMALL, isBuried, isDiscarded, check } = scenario;
  const problems: string[] = [];
  const known = new Set(ids);
  for (const { id } of record.sent) if (!known.has(id)) problems.push(`O1 ${id} has arrived`);
  for (const id of ids) {
    const taken = record.taken.filter((sent) => sent.id === id);
    if (isBuried && taken.length > 0) problems.push(`O3 ${id} was delivered and buried`);
    if (scenario.isMarked) problems.push(...onceOf(id, taken.length, record));
    const isTaken = !isBuried && !isDiscarded && !scenario.isMarked;
    if (isTaken && taken.length === 0) problems.push(`O2 ${id} was lost`);
    const isAsPut = (sent: Sent) => !("event" in sent) || same(sent.event, event);
    if (!taken.every(isAsPut)) problems.push(`O2 ${id} has changed`);
    if (isBuried && !record.letters.some((letter) => letter.id === id)) {
      problems.push(`O3 the dead letter ${id} was not reported`);
    }
    problems.push(...numbersOf(id, record));
  }
  return [...problems, ...(check?.(record) ?? [])];
}

/** Delivered at most once by itself, and not lost without a dead letter that says so. */
function onceOf(id: string, taken: number, { letters, puts }: PlayRecord): string[] {
  const own = letters.filter((letter) => letter.id === id);
  const unclear = own.filter(({ lastError }) => !lastError.includes("may have been delivered"));
  return [
    ...(taken > puts ? [`O2 ${id} was delivered ${taken} times`] : []),
    ...(taken === 0 && own.length === 0 ? [`O2 ${id} was lost`] : []),
    ...unclear.map(({ lastError }) => `O2 the dead letter ${id} says ${lastError}`),
  ];
}

/** Attempt numbers rise. They restart only when a caller puts the id again after its delivery. */
function numbersOf(id: string, { sent, puts }: PlayRecord): string[] {
  const numbers = sent.filter((one) => one.id === id).map(({ attempt }) => attempt);
  const falls = numbers.filter((number, index) => index > 0 && number <= (numbers[index - 1] ?? 0));
  const isRight = falls.length < puts && falls.every((number) => number === 1);
  return isRight || falls.length === 0 ? [] : [`O2 attempts of ${id} were numbered ${numbers}`];
}

const same = (a: unknown, b: unknown) => JSON.stringify(a) === JSON.stringify(b);

function failing(times: number): (nth: number) => void {
  return (nth) => {
    if (nth <= times) throw new Error("not now");
  };
}

/** The first attempt fails permanently. */
function refusing(nth: number): void {
  if (nth === 1) throw new UndeliverableError("never");
}

/** All attempts fail permanently. */
function refusingAll(): void {
  throw new UndeliverableError("never");
}

/** Stored in several parts. */
const LARGE = { text: `${"x".repeat(300_000)}é${"y".repeat(300_000)}` };
const OVER_THE_QUEUES_LIMIT = { text: "z".repeat(20_000) };

const fetchedWhole =
  (event: unknown) =>
  ({ fetched }: PlayRecord): string[] =>
    fetched.length > 0 && fetched.every((one) => same(one, event)) ? [] : ["O4 not fetched whole"];

/** The first attempts of the ids come in the order of put. */
function inOrder(ids: readonly string[]) {
  return ({ taken }: PlayRecord): string[] => {
    const firsts = [...new Set(taken.map(({ id }) => id))];
    return same(firsts, ids) ? [] : [`O2 they were taken in the order ${firsts}`];
  };
}

const THREE = ["a", "b", "c"];
const somewhere = workflowNamed("w");
const queue = { kind: "queue", queue: "Q" } as const;

/** Taken, once the operator has marked it received. */
function onceRepaired(_: number, __: Sent, { isRepaired }: PlayRecord): void {
  if (!isRepaired) throw new UndeliverableError("gone", { isGone: true });
}

const DELIVERED: Plans = {
  "put and delivered": plan({ to: somewhere }),
  "put and delivered, several at once": plan({ to: somewhere, ids: THREE }),
  "put and delivered and kept": plan({
    to: somewhere,
    settings: { keepDelivered: {} },
    soonAfter: /INTO perdure_outbox_ended/,
  }),
  "failed twice and delivered": plan({
    to: somewhere,
    answer: failing(2),
    soonAfter: /UPDATE perdure_outbox/,
  }),
  "buried after its attempts": plan({
    to: somewhere,
    isBuried: true,
    left: 1,
    soonAfter: BURIED,
    settings: { policy: { maxAttempts: 3 } },
    answer: failing(1_000),
    check: ({ sent, letters }) =>
      [...sent, ...letters.map(({ attempts }) => ({ attempt: attempts }))]
        .filter(({ attempt }) => attempt > 3)
        .map(({ attempt }) => `O3 attempt ${attempt} of 3`),
  }),
  "discarded, for a workflow that has ended": plan({
    to: somewhere,
    ids: THREE,
    event: LARGE,
    answer: () => {
      throw new NotNeededError("it is complete");
    },
    isDiscarded: true,
    soonAfter: /INTO perdure_outbox_ended/,
  }),
  "in parts, delivered whole": plan({ to: somewhere, event: LARGE }),
  "in parts, by reference": plan({ to: queue, event: LARGE, check: fetchedWhole(LARGE) }),
  "by reference, after a failure": plan({
    to: queue,
    event: OVER_THE_QUEUES_LIMIT,
    answer: failing(1),
    check: fetchedWhole(OVER_THE_QUEUES_LIMIT),
  }),
  "ordered, of which the first fails": plan({
    to: workflowNamed("o", { ordered: true, ...QUICK }),
    ids: THREE,
    answer: (nth, { id }) => {
      if (id === "a" && nth <= 2) throw new Error("not now");
    },
    check: inOrder(THREE),
  }),
  "marked and delivered": plan({
    to: { kind: "telegram", chat: 1, token: "T" },
    ids: THREE,
    event: { text: "done" },
    isMarked: true,
    soonAfter: /SET unsure_since/,
  }),
  "marked, refused twice and delivered": plan({
    to: { kind: "telegram", chat: 1, token: "T" },
    event: { text: "done" },
    isMarked: true,
    soonAfter: /SET unsure_since/,
    answer: (nth) => {
      if (nth <= 2) throw new RefusedError("not now");
    },
  }),
  "an endpoint that asks to be left alone": plan({
    to: WEBHOOK,
    ids: THREE,
    soonAfter: /INTO perdure_endpoints/,
    answer: (nth, { id }) => {
      if (id !== "a" || nth > 1) return;
      throw Object.assign(new Error("later"), {
        statusCode: 429,
        responseHeaders: { "retry-after-ms": "5" },
      });
    },
  }),
};

const OPERATED: Plans = {
  "refused, reported, redriven and delivered": plan({
    to: somewhere,
    answer: refusing,
    verbs: ["Outbox.redrive"],
    soonAfter: BURIED,
    operator: ({ outbox }, _, [id = ""]) => outbox.redrive(id),
  }),
  "in parts, refused and redriven with all": plan({
    to: somewhere,
    event: LARGE,
    answer: refusing,
    verbs: ["Outbox.redriveAll"],
    soonAfter: BURIED,
    operator: ({ outbox }) => outbox.redriveAll({}),
  }),
  "refused, and the dead letter deleted": plan({
    to: somewhere,
    ids: THREE,
    event: LARGE,
    answer: refusingAll,
    isBuried: true,
    left: 2,
    verbs: ["Outbox.deleteDeadLetter"],
    soonAfter: /DELETE FROM perdure_outbox_ended/,
    operator: ({ outbox }, _, [id = ""]) => outbox.deleteDeadLetter(id),
  }),
  "refused, and all dead letters deleted": plan({
    to: somewhere,
    ids: THREE,
    event: LARGE,
    answer: refusingAll,
    isBuried: true,
    verbs: ["Outbox.deleteDeadLetters"],
    soonAfter: /DELETE FROM perdure_outbox_ended/,
    operator: ({ outbox }) => outbox.deleteDeadLetters({ before: new Date(Date.now() + 1_000) }),
  }),
  "an endpoint that is gone and comes back": plan({
    to: WEBHOOK,
    ids: THREE,
    answer: onceRepaired,
    verbs: ["Outbox.enableEndpoint"],
    soonAfter: /INTO perdure_endpoints/,
    operator: async ({ outbox }, record) => {
      record.isRepaired = true;
      await outbox.enableEndpoint(WEBHOOK.url);
    },
  }),
  "an endpoint that is disabled by hand, and enabled": plan({
    to: WEBHOOK,
    ids: THREE,
    settings: { policy: { backoff: { base: 50, cap: 50 } } },
    answer: (_, __, { isRepaired }) => {
      if (!isRepaired) throw new Error("not now");
    },
    verbs: ["Outbox.disableEndpoint", "Outbox.enableEndpoint"],
    soonAfter: BURIED,
    // What waits is buried, and redriven.
    isEarly: true,
    operator: async ({ outbox }, record) => {
      const { state } = await outbox.inspectEndpoint(WEBHOOK.url);
      if (state !== "disabled") await outbox.disableEndpoint(WEBHOOK.url, "by hand");
      await sleep(10);
      record.isRepaired = true;
      await outbox.enableEndpoint(WEBHOOK.url);
    },
  }),
};

const READS = "reads only";

playMatrix(
  "O1 O2 O3 O4 O5",
  { ...DELIVERED, ...OPERATED },
  {
    owners: { Outbox },
    harmless: {
      "Outbox.drive": "the alarm, which wakes every scenario",
      "Outbox.onStart": "runs at each start of the object",
      "Outbox.install": "runs in the constructor, and writes nothing",
      "Outbox.keepDelivered": "is called in the constructor, and writes nothing",
      "Outbox.problemOf": "reads a destination, and no row",
      "Outbox.endOf": "reads a destination, and no row",
      "Outbox.enqueue":
        "put() of other modules: the scenarios of the ledger and of the waits play it",
      "Outbox.flush":
        "starts to deliver what is stored: the scenarios of the ledger and of the waits play it",
      "Outbox.inspect": READS,
      "Outbox.infoOf": READS,
      "Outbox.startId": READS,
      "Outbox.stores": "the tables",
      "Outbox.read": READS,
      "Outbox.stats": READS,
      "Outbox.listDeliveries": READS,
      "Outbox.listDeadLetters": READS,
      "Outbox.countDeadLetters": READS,
      "Outbox.listEndpoints": READS,
      "Outbox.inspectEndpoint": READS,
    },
  },
);
