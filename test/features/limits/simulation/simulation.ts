/** Thousands of agents that share one account at a provider, on a virtual clock: the keeper's book, and a provider that counts. */

import type { StoredKey } from "../../../../src/features/limits/keeper/account.ts";
import { Book } from "../../../../src/features/limits/keeper/book.ts";
import {
  type Amounts,
  type Ask,
  type Lent,
  type Rules,
  SLOT_MS,
} from "../../../../src/features/limits/keeper/protocol.ts";

export type World = {
  readonly seed: number;
  readonly agents: number;
  readonly keys: number;
  readonly minutes: number;
  readonly rules: Rules;
  /** Calls of the model in a turn, and how long one takes. */
  readonly callsOf: (random: () => number) => number;
  readonly callMsOf: (random: () => number) => number;
  /** Tokens that a call reserves, and those that it uses. */
  readonly tokensOf: (random: () => number) => { readonly reserved: number; readonly used: number };
  /** Milliseconds from the end of a turn to the next one of the same agent, by the time of the simulation. */
  readonly idleMsOf: (random: () => number, now: number) => number;
  readonly weightOf: (key: number) => number;
  /** @default 0 */
  readonly priorityOf?: (random: () => number) => number;
  /** The key of an agent. @default the agents go round the keys */
  readonly keyOf?: (agent: number) => number;
  /** The chance that an agent crashes in a call: it reports nothing. */
  readonly crashes?: number;
  /** How long a request is on its way to the provider. @default up to 10 ms */
  readonly arrivesAfterMs?: (random: () => number) => number;
  /** The keeper loses its memory so often. */
  readonly keeperCrashesMs?: number;
  /** The provider allows this part of the requests from this minute on, and says so in its headers. */
  readonly halvesAt?: number;
  readonly moneyOf?: (used: number) => number;
};

/** A turn that has started: when it asked first, and when it was lent what it needs. */
export type Start = {
  readonly key: number;
  readonly priority: number;
  readonly since: number;
  readonly at: number;
};

/** What was seen in one minute. */
type Minute = {
  requests: number;
  tokens: number;
  /** The largest part of a limit that counted, in the mean of its seconds. */
  used: number;
  /** Seconds in which work waited. */
  waiting: number;
  refused: number;
  byKey: number[];
};

export type Seen = {
  readonly minutes: Minute[];
  /** Times at which the provider had more requests or tokens in the minute before than it allows. */
  readonly over: { requests: number; tokens: number; mostTokens: number };
  readonly asks: number;
  readonly lends: number;
  readonly turns: number;
  /** By key. */
  readonly longestWaitMs: number[];
  /** First calls of turns, in the order of their starts. */
  readonly starts: Start[];
  readonly nanodollars: number;
  readonly saves: number;
};

const MINUTE = 60_000;

/** A small generator of random numbers, so that a seed repeats a run (mulberry32). */
function randomOf(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

class Events {
  readonly #heap: { at: number; order: number; run: () => void }[] = [];
  #order = 0;

  add(at: number, run: () => void): void {
    const heap = this.#heap;
    heap.push({ at, order: this.#order++, run });
    for (let child = heap.length - 1; child > 0; ) {
      const parent = (child - 1) >> 1;
      if (!this.#isBefore(child, parent)) break;
      this.#swap(child, parent);
      child = parent;
    }
  }

  next(): { at: number; run: () => void } | undefined {
    const heap = this.#heap;
    const first = heap[0];
    const last = heap.pop();
    if (heap.length === 0 || !last) return first;
    heap[0] = last;
    for (let parent = 0; ; ) {
      let least = parent;
      for (const child of [2 * parent + 1, 2 * parent + 2])
        if (child < heap.length && this.#isBefore(child, least)) least = child;
      if (least === parent) return first;
      this.#swap(parent, least);
      parent = least;
    }
  }

  #isBefore(one: number, other: number): boolean {
    const [a, b] = [this.#heap[one], this.#heap[other]];
    if (!a || !b) return false;
    return a.at < b.at || (a.at === b.at && a.order < b.order);
  }

  #swap(one: number, other: number): void {
    const heap = this.#heap;
    const kept = heap[one];
    const moved = heap[other];
    if (!kept || !moved) return;
    heap[one] = moved;
    heap[other] = kept;
  }
}

/** What a provider counts in the window before each request, exactly: a minute, if the limit has no shorter one. */
class Provider {
  readonly #log: { at: number; tokens: number }[] = [];
  #first = 0;
  #tokens = 0;
  readonly over = { requests: 0, tokens: 0, mostTokens: 0 };

  readonly #windowMs: number;

  constructor(private readonly rules: Rules) {
    const { window } = rules.requests ?? {};
    this.#windowMs = window && "ms" in window ? window.ms : MINUTE;
  }

  /** Returns whether it takes the request. */
  take(now: number, tokens: number, part: number, isMeasured: boolean): boolean {
    for (
      let first = this.#log[this.#first];
      first && first.at <= now - this.#windowMs;
      first = this.#log[this.#first]
    ) {
      this.#tokens -= first.tokens;
      this.#first++;
    }
    const requests = this.#log.length - this.#first;
    const { requests: byRequests, tokens: byTokens } = this.rules;
    const isOver = requests + 1 > (byRequests?.amount ?? Number.POSITIVE_INFINITY) * part;
    const tooMany = this.#tokens + tokens > (byTokens?.amount ?? Number.POSITIVE_INFINITY) * part;
    if (isMeasured && isOver) this.over.requests++;
    if (isMeasured && tooMany) {
      this.over.tokens++;
      const most = (this.#tokens + tokens) / ((byTokens?.amount ?? 1) * part);
      this.over.mostTokens = Math.max(this.over.mostTokens, most);
    }
    if (isOver || tooMany) return false;
    this.#log.push({ at: now, tokens });
    this.#tokens += tokens;
    return true;
  }
}

type Turn = {
  readonly agent: number;
  readonly key: number;
  readonly priority: number;
  calls: number;
  since: number;
  readonly started: number;
  hasBegun: boolean;
};

export function simulate(world: World): Seen {
  const random = randomOf(world.seed);
  const events = new Events();
  let now = 1_800_000_000_000;
  const start = now;
  const rows = new Map<string, string>();
  let saves = 0;
  const store = {
    load: (key: string) => {
      const text = rows.get(key);
      return text === undefined ? undefined : (JSON.parse(text) as StoredKey);
    },
    save: (key: string, state: StoredKey) => {
      saves++;
      // The text is made where it is read: a crash of the keeper.
      latest.set(key, state);
    },
  };
  const latest = new Map<string, StoredKey>();
  const clock = { now: () => now, random };
  let book = new Book("account", store, clock);
  const provider = new Provider(world.rules);
  const minutes: Minute[] = [];
  const longestWaitMs = Array<number>(world.keys).fill(0);
  const starts: Start[] = [];
  const counts = { asks: 0, lends: 0, turns: 0, nanodollars: 0 };
  let waiting = 0;

  const minute = (): Minute => {
    const index = Math.floor((now - start) / MINUTE);
    while (minutes.length <= index)
      minutes.push({
        requests: 0,
        tokens: 0,
        used: 0,
        waiting: 0,
        refused: 0,
        byKey: Array(world.keys).fill(0),
      });
    return minutes[index] as Minute;
  };
  const partOf = () =>
    world.halvesAt !== undefined && now - start >= world.halvesAt * MINUTE ? 0.5 : 1;
  /** After its limit has changed, the provider still counts what it took before. */
  const isMeasured = () =>
    world.halvesAt === undefined ||
    now - start < world.halvesAt * MINUTE ||
    now - start > (world.halvesAt + 1.1) * MINUTE;
  const partOfCall = (used: number) =>
    Math.max(
      1 / (world.rules.requests?.amount ?? Number.POSITIVE_INFINITY),
      used / (world.rules.tokens?.amount ?? Number.POSITIVE_INFINITY),
    );
  const latencyMs = () => 5 + 40 * random();

  const begin = (agent: number) => {
    const turn = {
      agent,
      key: world.keyOf?.(agent) ?? agent % world.keys,
      priority: world.priorityOf?.(random) ?? 0,
      calls: world.callsOf(random),
      since: now,
      started: now,
      hasBegun: false,
    };
    waiting++;
    ask(turn, world.tokensOf(random));
  };

  const ask = (turn: Turn, tokens: { reserved: number; used: number }): void => {
    const sentAt = now;
    events.add(now + latencyMs(), () => {
      counts.asks++;
      const share = { key: `key ${turn.key}`, weight: world.weightOf(turn.key) };
      const money = world.moneyOf?.(tokens.reserved);
      const need: Amounts = {
        requests: 1,
        ...(world.rules.tokens && { tokens: tokens.reserved }),
        ...(world.rules.slots && { slots: 1 }),
        ...(money !== undefined && { nanodollars: money }),
      };
      const asked: Ask = {
        ticket: `agent ${turn.agent}`,
        key: "",
        rules: world.rules,
        need,
        share,
        hasBegun: turn.hasBegun,
        priority: turn.priority,
        waitedMs: now - turn.since,
      };
      const answer = book.ask(asked);
      if (answer.outcome === "refused") throw new Error(`refused: ${JSON.stringify(answer)}`);
      if (answer.outcome === "wait") {
        events.add(now + latencyMs() + answer.waitMs, () => ask(turn, tokens));
        return;
      }
      counts.lends++;
      waiting--;
      const { key, priority, since, hasBegun } = turn;
      if (!hasBegun) starts.push({ key, priority, since, at: now + answer.inMs });
      const waitedMs = now + answer.inMs - turn.since;
      longestWaitMs[turn.key] = Math.max(longestWaitMs[turn.key] ?? 0, waitedMs);
      const receivedAt = now + latencyMs();
      const startsAt = receivedAt + answer.inMs;
      // The alarm that starts it comes a little late.
      const at = startsAt + (answer.inMs > 0 ? 30 * random() : 0);
      events.add(at, () => call(turn, tokens, answer, asked, sentAt));
    });
  };

  const call = (
    turn: Turn,
    tokens: { reserved: number; used: number },
    lent: Lent,
    asked: Ask,
    sentAt: number,
  ) => {
    if (now > sentAt + lent.inMs + lent.forMs) {
      // Too late: asks again.
      waiting++;
      return ask(turn, tokens);
    }
    const arrivesAfterMs = world.arrivesAfterMs?.(random) ?? 10 * random();
    events.add(now + arrivesAfterMs, () => {
      const isTaken = provider.take(now, tokens.used, partOf(), isMeasured());
      const answeredAt = now;
      const one = minute();
      if (!isTaken) one.refused++;
      else {
        one.requests++;
        one.tokens += tokens.used;
        one.byKey[turn.key] = (one.byKey[turn.key] ?? 0) + partOfCall(tokens.used);
        counts.nanodollars += world.moneyOf?.(tokens.used) ?? 0;
      }
      const isLost = random() < (world.crashes ?? 0);
      const tookMs = isTaken ? world.callMsOf(random) : 50;
      const { requests, tokens: byTokens } = world.rules;
      // Its headers name what it allows.
      const header = Math.floor((requests?.amount ?? 0) * partOf());
      const byToken = Math.floor((byTokens?.amount ?? 0) * partOf());
      const allowed = {
        ...(requests && { requests: header }),
        ...(byTokens && { tokens: byToken }),
      };
      if (partOf() < 1)
        events.add(now + latencyMs(), () => book.observe({ key: "", rules: world.rules, allowed }));
      if (isLost) return events.add(now + SLOT_MS, () => finish({ ...turn, calls: 1 }));
      const renewed = renewals(now + tookMs, asked);
      events.add(now + tookMs + latencyMs(), () => {
        renewed.isOver = true;
        const used = isTaken
          ? {
              requests: 1,
              ...(byTokens && { tokens: tokens.used }),
              ...(world.moneyOf && { nanodollars: world.moneyOf(tokens.used) }),
            }
          : {};
        const ago = now - answeredAt;
        const share = asked.share && { share: asked.share };
        book.giveBack([
          {
            key: "",
            rules: world.rules,
            lease: lent.lease,
            ticket: asked.ticket,
            ...share,
            lent: asked.need,
            used,
            usedAgoMs: ago,
          },
        ]);
        if (isTaken) finish(turn);
        else {
          waiting++;
          ask({ ...turn, since: now }, tokens);
        }
      });
    });
  };

  /** A call that takes long renews its slot. */
  const renewals = (until: number, asked: Ask) => {
    const state = { isOver: false };
    const renew = () => {
      if (state.isOver || now >= until) return;
      book.ask({ ...asked, need: { slots: 1 }, isRenewal: true });
      events.add(now + SLOT_MS / 3, renew);
    };
    if (asked.need.slots) events.add(now + SLOT_MS / 3, renew);
    return state;
  };

  const finish = (turn: Turn) => {
    const calls = turn.calls - 1;
    if (calls > 0) {
      waiting++;
      return ask({ ...turn, calls, since: now, hasBegun: true }, world.tokensOf(random));
    }
    counts.turns++;
    events.add(now + world.idleMsOf(random, now - start), () => begin(turn.agent));
  };

  const sample = () => {
    const [state] = book.inspect([""]);
    const part = partOf();
    const parts = (["requests", "tokens"] as const).map((name) => {
      const allowed = (world.rules[name]?.amount ?? Number.POSITIVE_INFINITY) * part;
      return (state?.used[name] ?? 0) / allowed;
    });
    if (world.rules.slots) parts.push((state?.used.slots ?? 0) / world.rules.slots);
    const one = minute();
    one.used += Math.max(...parts) / 60;
    if (waiting > 20) one.waiting++;
    events.add(now + 1_000, sample);
  };

  for (let agent = 0; agent < world.agents; agent++)
    events.add(now + world.idleMsOf(random, 0), () => begin(agent));
  events.add(now + 1_000, sample);
  if (world.keeperCrashesMs !== undefined) {
    const every = world.keeperCrashesMs;
    const crash = () => {
      for (const [key, state] of latest) rows.set(key, JSON.stringify(state));
      book = new Book("account", store, clock);
      events.add(now + every, crash);
    };
    events.add(now + every, crash);
  }
  for (;;) {
    const next = events.next();
    if (!next || next.at > start + world.minutes * MINUTE) break;
    now = next.at;
    next.run();
  }
  return { minutes, over: provider.over, longestWaitMs, starts, ...counts, saves };
}
