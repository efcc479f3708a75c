/**
 * The ways that events take through an outbox, for a test that crashes it on
 * each of them: what the caller and the operator do, what the destinations
 * answer, and what has to have arrived in the end. What arrives is kept
 * outside of the object, where no crash undoes it.
 */

import type { DeadLetter, Destination, OutboxSettings } from "../../src/outbox/index.ts";
import { UndeliverableError } from "../../src/outbox/index.ts";
import { sleep } from "./ledger.ts";
import { WEBHOOK, workflowNamed } from "./outbox.ts";
import type { OutboxObject, OutboxScript, Sent } from "./outbox-object.ts";

type Step = {
  /** Asked again until the caller has been told that it was done. */
  readonly act: (object: OutboxObject) => Promise<void>;
  /** What must come about before the next step. */
  readonly until: (ctx: DurableObjectState) => boolean;
};

type Play = {
  readonly script: OutboxScript;
  readonly steps: readonly Step[];
  /** What is not as it has to be, in the end. */
  readonly problems: () => string[];
};

export type Way = () => Play;

type Plan = {
  readonly to: Destination;
  /** The ids of the events; one unless it says otherwise. */
  readonly ids?: readonly string[];
  readonly event?: unknown;
  readonly settings?: OutboxSettings;
  /** Throws for an attempt that the destination does not take; `nth` is 1 for the first that comes with this id. */
  readonly answer?: (nth: number, sent: Sent) => void;
  /** What the operator does, once all that can be has been given up. */
  readonly operator?: (object: OutboxObject, ids: readonly string[]) => Promise<void>;
  /** Ids that end as dead letters, and are never taken. */
  readonly isGivenUp?: boolean;
  /** What has to be so of each event in the end, beside that it has arrived. */
  readonly check?: (seen: Seen) => string[];
};

/** All that was seen outside of the object. */
class Seen {
  /** Every attempt that has come, in the order in which they came. */
  readonly sent: Sent[] = [];
  readonly taken: Sent[] = [];
  readonly letters: DeadLetter[] = [];
  /** What `read()` gave for a reference. */
  readonly fetched: unknown[] = [];
  /** How often the caller has put, being told or not. */
  puts = 0;
}

const QUICK = { backoff: { base: 1, cap: 1 } } as const;
const SMALL = { a: 1 };

function play(plan: Plan): Play {
  const { to, ids = ["e"], event = SMALL, settings, answer, operator } = plan;
  const seen = new Seen();
  const put = async ({ lifecycle, outbox, ctx }: Inner) => {
    await lifecycle.start();
    seen.puts++;
    rollBack(ctx.storage, () => outbox.put(to, event, { id: "rolled back" }));
    ctx.storage.transactionSync(() => {
      for (const id of ids) outbox.put(to, event, { id });
    });
  };
  const redrive = async (object: OutboxObject) => {
    await object.lifecycle.start();
    await operator?.(object, ids);
  };
  return {
    script: {
      settings: { ...settings, policy: { ...QUICK, ...settings?.policy } },
      deliver: async (sent, _, { outbox }) => {
        seen.sent.push(sent);
        answer?.(seen.sent.filter(({ id }) => id === sent.id).length, sent);
        seen.taken.push(sent);
        if ("reference" in sent) seen.fetched.push(await outbox.read(sent.id));
        // The note of it is a commit of its own.
        await sleep(2);
      },
      told: async (letter) => {
        seen.letters.push(letter);
        await sleep(2);
      },
    },
    steps: [
      { act: (object) => put(object as unknown as Inner), until: isOver },
      ...(operator ? [{ act: redrive, until: isOver }] : []),
    ],
    problems: () => problemsOf(plan, seen),
  };
}

/** `ctx` is protected to everybody but the object itself. */
type Inner = Pick<OutboxObject, "lifecycle" | "outbox"> & { readonly ctx: DurableObjectState };

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

/** Each event has arrived or was given up, and whoever is to be told of it has been. */
function isOver({ storage: { sql } }: DurableObjectState): boolean {
  const tables = sql.exec("SELECT 1 FROM sqlite_master WHERE name = 'perdure_outbox'").toArray();
  if (tables.length === 0) return false;
  const open = sql.exec(
    "SELECT 1 FROM perdure_outbox UNION ALL SELECT 1 FROM perdure_dead_letters WHERE is_told = 0",
  );
  return open.toArray().length === 0;
}

function problemsOf({ ids = ["e"], event = SMALL, isGivenUp, check }: Plan, seen: Seen): string[] {
  const problems: string[] = [];
  const known = new Set(ids);
  for (const { id } of seen.sent) if (!known.has(id)) problems.push(`${id} has arrived`);
  for (const id of ids) {
    const taken = seen.taken.filter((sent) => sent.id === id);
    if (isGivenUp && taken.length > 0) problems.push(`${id} was taken and given up`);
    if (!isGivenUp && taken.length === 0) problems.push(`${id} was lost`);
    const isAsPut = (sent: Sent) => !("event" in sent) || same(sent.event, event);
    if (!taken.every(isAsPut)) problems.push(`${id} has changed`);
    if (isGivenUp && !seen.letters.some((letter) => letter.id === id)) {
      problems.push(`nobody was told of the dead letter ${id}`);
    }
    problems.push(...numbersOf(id, seen));
  }
  return [...problems, ...(check?.(seen) ?? [])];
}

/** Attempt numbers rise; they begin anew only when a caller has put the same id once more after it had left. */
function numbersOf(id: string, { sent, puts }: Seen): string[] {
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

/** Whole only with all of its parts. */
const LARGE = { text: `${"x".repeat(300_000)}é${"y".repeat(300_000)}` };
const OVER_THE_QUEUES_LIMIT = { text: "z".repeat(20_000) };

const fetchedWhole =
  (event: unknown) =>
  ({ fetched }: Seen): string[] =>
    fetched.length > 0 && fetched.every((one) => same(one, event)) ? [] : ["O4 not fetched whole"];

/** The first of each id comes in the order of put. */
function inOrder(ids: readonly string[]) {
  return ({ taken }: Seen): string[] => {
    const firsts = [...new Set(taken.map(({ id }) => id))];
    return same(firsts, ids) ? [] : [`they were taken in the order ${firsts}`];
  };
}

const THREE = ["a", "b", "c"];
const somewhere = workflowNamed("w");
const queue = { kind: "queue", queue: "Q" } as const;

export const WAYS = {
  "put and delivered": () => play({ to: somewhere }),
  "put and delivered, several at once": () => play({ to: somewhere, ids: THREE }),
  "put and delivered and kept": () => play({ to: somewhere, settings: { keepDelivered: {} } }),
  "failed twice and delivered": () => play({ to: somewhere, answer: failing(2) }),
  "refused, told of, redriven and delivered": () =>
    play({
      to: somewhere,
      answer: (nth) => {
        if (nth === 1) throw new UndeliverableError("never");
      },
      operator: async ({ outbox }, [id = ""]) => void (await outbox.redrive(id)),
    }),
  "given up after its attempts": () =>
    play({
      to: somewhere,
      isGivenUp: true,
      settings: { policy: { maxAttempts: 3 } },
      answer: failing(1_000),
      check: ({ sent, letters }) =>
        [...sent, ...letters.map(({ attempts }) => ({ attempt: attempts }))]
          .filter(({ attempt }) => attempt > 3)
          .map(({ attempt }) => `O3 attempt ${attempt} of 3`),
    }),
  "in parts, delivered whole": () => play({ to: somewhere, event: LARGE }),
  "in parts, refused and redriven": () =>
    play({
      to: somewhere,
      event: LARGE,
      answer: (nth) => {
        if (nth === 1) throw new UndeliverableError("never");
      },
      operator: async ({ outbox }) => void (await outbox.redriveAll({})),
    }),
  "in parts, by reference": () => play({ to: queue, event: LARGE, check: fetchedWhole(LARGE) }),
  "by reference, after a failure": () =>
    play({
      to: queue,
      event: OVER_THE_QUEUES_LIMIT,
      answer: failing(1),
      check: fetchedWhole(OVER_THE_QUEUES_LIMIT),
    }),
  "ordered, of which the first fails": () =>
    play({
      to: workflowNamed("o", { ordered: true, ...QUICK }),
      ids: THREE,
      answer: (nth, { id }) => {
        if (id === "a" && nth <= 2) throw new Error("not now");
      },
      check: inOrder(THREE),
    }),
  "an endpoint that is gone and comes back": () => {
    let isBack = false;
    return play({
      to: WEBHOOK,
      ids: THREE,
      answer: () => {
        if (!isBack) throw new UndeliverableError("gone", { isGone: true });
      },
      operator: async ({ outbox }) => {
        isBack = true;
        await outbox.enableEndpoint(WEBHOOK.url);
      },
    });
  },
  "an endpoint that asks to be left alone": () =>
    play({
      to: WEBHOOK,
      ids: THREE,
      answer: (nth, { id }) => {
        if (id !== "a" || nth > 1) return;
        throw Object.assign(new Error("later"), {
          statusCode: 429,
          responseHeaders: { "retry-after-ms": "5" },
        });
      },
    }),
} satisfies Record<string, Way>;
