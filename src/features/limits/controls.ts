/** What an app and its operators see and change of limits: `agent.limits`. Each verb asks the keepers. */

import * as z from "zod";
import { type Clock, systemClock } from "../../core/clock.ts";
import { preview } from "../../core/json.ts";
import { count, optionsOf, readOptions, text } from "../../core/options/option-schemas.ts";
import { invalidOption } from "../../core/options/options.ts";
import { cursorsOf, type Page, type PageOptions, readFilter } from "../../engine/page.ts";
import type { DeclaredLimit } from "./declared/declarations.ts";
import type { Dimension, KeyState } from "./keeper/protocol.ts";
import { ALL_KEYS, MAX_KEY_LENGTH, MAX_REASON_LENGTH } from "./keeper/protocol.ts";
import { type Keepers, keeperOf, keepersOf, rulesOfShard } from "./keepers.ts";

/** Which keys to list. */
export type ListLimitsOptions = PageOptions & {
  /** Only those of this limit. */
  readonly name?: string | undefined;
  /** Only this key of the limit `name`. */
  readonly key?: string | undefined;
};

/** What is used of an amount now, and what is declared. What is lent to agents counts as used. */
export type LimitUse = {
  readonly used: number;
  readonly amount: number;
  /** What the provider allows by its headers, where that is less than `amount`. */
  readonly allowed?: number;
  /** What agents use for a while after the provider has refused requests and named no limit. */
  readonly lowered?: number;
};

/** A key of a limit that agents have used or that is paused. */
export type LimitState = {
  readonly limit: string;
  /** `""` for a limit without keys. */
  readonly key: string;
  /** Which part of a limit without keys and with more than one shard: each has an equal part of the amounts. */
  readonly shard?: number;
  readonly requests?: LimitUse;
  readonly tokens?: LimitUse;
  readonly usd?: LimitUse;
  readonly concurrency?: LimitUse;
  /** Submissions and model calls that wait for it now. */
  readonly waiting: number;
  readonly longestWaitMs: number;
  /** Epoch milliseconds. */
  readonly pausedAt?: number;
  /** Why it is paused. */
  readonly reason?: string;
  /** The provider has refused requests, and takes none until then: epoch milliseconds. */
  readonly closedUntil?: number;
  /**
   * When its money comes back, epoch milliseconds: at the end of the day or month. Of a minute or an hour, which slide, when the
   * oldest use leaves the window; undefined where none is used.
   */
  readonly windowEndsAt?: number;
};

/** The limit, its shard and the key that ended a page. */
type Place = readonly [limit: string, keeper: string, key: string];

const PLACE = z.tuple([z.string(), z.string(), z.string().max(MAX_KEY_LENGTH)]);
const CURSORS = cursorsOf("limits", (text): Place | undefined => {
  try {
    return PLACE.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
});

const KEY = text({ maxLength: MAX_KEY_LENGTH, empty: true });
const LIST = optionsOf<ListLimitsOptions>()({
  name: text({ maxLength: 64 }).optional(),
  key: KEY.optional(),
  limit: count({ max: 1_000 }).default(100),
  cursor: CURSORS.option,
});
const REASON = text({ maxLength: MAX_REASON_LENGTH });

/** By the name of an amount: its dimension at the keeper, and how many of that make one. */
const AMOUNTS = {
  requests: ["requests", 1],
  tokens: ["tokens", 1],
  usd: ["nanodollars", 1e9],
  concurrency: ["slots", 1],
} as const satisfies Readonly<Record<string, readonly [Dimension, number]>>;

export class LimitControls {
  constructor(
    private readonly limits: readonly DeclaredLimit[],
    private readonly keepers: Keepers,
    private readonly clock: Pick<Clock, "now"> = systemClock,
  ) {}

  /**
   * The keys of declared limits that are in use or paused, in the order of the declarations and of the keys. A key that was not
   * used for the length of its windows is not listed.
   *
   * @param options.limit 1 to 1,000. @default 100
   * @throws InvalidFilterError, InvalidOptionError for an unknown limit, KeeperUnreachableError
   */
  async list(options: ListLimitsOptions = {}): Promise<Page<LimitState>> {
    const { name, key, limit: most, cursor } = readFilter(LIST, "limits.list()", options);
    if (key !== undefined) return { items: await this.#one(name, key) };
    const kept = (name === undefined ? this.limits : [this.#limit(name)]).flatMap((limit) =>
      keepersOf(limit).map((keeper, shard) => ({ limit, keeper, shard })),
    );
    const items: LimitState[] = [];
    const from = kept.findIndex(({ keeper }) => keeper === cursor?.[1]);
    for (const { limit, keeper, shard } of kept.slice(Math.max(0, from))) {
      const after = keeper === cursor?.[1] ? cursor[2] : undefined;
      const rest = most - items.length;
      const { keys, next } = await this.keepers.call(keeper, (stub) =>
        stub.list({ limit: rest, after }),
      );
      const own = limit.keyOf ? keys.filter((state) => state.key !== ALL_KEYS) : keys;
      items.push(...own.map((state) => this.#shown(limit, shard, state)));
      const last = next ?? keys.at(-1)?.key;
      if (items.length < most || last === undefined) continue;
      return { items, cursor: CURSORS.at(JSON.stringify([limit.name, keeper, last])) };
    }
    return { items };
  }

  /**
   * Lends nothing of a key to any agent until {@link resume}: turns that need it wait. What is lent already may be used.
   *
   * @param key `""` for a limit without keys
   * @param reason for operators and in `waitingFor`: 1 to 1,000 characters
   * @throws InvalidOptionError, KeeperUnreachableError: call again
   */
  async pause(limit: string, key: string, reason: string): Promise<void> {
    const found = this.#limit(limit);
    readOptions(REASON, reason, "reason");
    const keepers = this.#keepersOf(found, key);
    const rules = rulesOfShard(found);
    const calls = keepers.map((keeper) =>
      this.keepers.call(keeper, (stub) => stub.pause(key, reason, rules)),
    );
    await Promise.all(calls);
  }

  /**
   * Ends a pause. Returns whether the key was paused.
   *
   * @throws InvalidOptionError, KeeperUnreachableError: call again
   */
  async resume(limit: string, key: string): Promise<boolean> {
    const found = this.#limit(limit);
    const rules = rulesOfShard(found);
    const calls = this.#keepersOf(found, key).map((keeper) =>
      this.keepers.call(keeper, (stub) => stub.resume(key, rules)),
    );
    return (await Promise.all(calls)).some(Boolean);
  }

  /** @throws InvalidOptionError */
  #limit(name: string | undefined): DeclaredLimit {
    const found = this.limits.find((limit) => limit.name === name);
    const names = this.limits.map((limit) => preview(limit.name)).join(", ");
    if (!found) throw invalidOption("limit", name, `one of the declared limits: ${names}`);
    return found;
  }

  /** The keepers of a key. @throws InvalidOptionError for a key that the limit cannot have */
  #keepersOf(limit: DeclaredLimit, key: string): string[] {
    readOptions(KEY, key, "key");
    const isKeyed = limit.keyOf !== undefined;
    const named = `the limit ${preview(limit.name)}`;
    if (isKeyed && key === "") throw invalidOption("key", key, `a key of ${named}`);
    if (!isKeyed && key !== "") throw invalidOption("key", key, `"", because ${named} has no keys`);
    return isKeyed ? [keeperOf(limit, key, "")] : keepersOf(limit);
  }

  async #one(name: string | undefined, key: string): Promise<LimitState[]> {
    const limit = this.#limit(name);
    const found = this.#keepersOf(limit, key).map(async (keeper, shard) => {
      const { keys } = await this.keepers.call(keeper, (stub) => stub.list({ key, limit: 1 }));
      return keys.map((state) => this.#shown(limit, shard, state));
    });
    return (await Promise.all(found)).flat();
  }

  #shown({ name, keyOf, shards }: DeclaredLimit, shard: number, state: KeyState): LimitState {
    const { key, waiting, longestWaitMs, pausedAt, reason, closedForMs, windowEndsAt } = state;
    return {
      limit: name,
      key,
      ...(!keyOf && shards > 1 && { shard }),
      ...usesOf(state),
      ...{ waiting, longestWaitMs },
      ...(pausedAt !== undefined && { pausedAt }),
      ...(reason !== undefined && { reason }),
      ...(closedForMs !== undefined && { closedUntil: this.clock.now() + closedForMs }),
      ...(windowEndsAt !== undefined && { windowEndsAt }),
    };
  }
}

function usesOf({ rules, used, ...less }: KeyState) {
  type Less = Partial<Record<Dimension, number>>;

  const uses = Object.entries(AMOUNTS).flatMap(([name, [dimension, one]]): [string, LimitUse][] => {
    const rule = rules[dimension];
    if (rule === undefined) return [];
    const amount = (typeof rule === "number" ? rule : rule.amount) / one;
    const allowed = (less.allowed as Less | undefined)?.[dimension];
    const lowered = (less.lowered as Less | undefined)?.[dimension];
    const use = { used: (used[dimension] ?? 0) / one, amount };
    return [
      [
        name,
        {
          ...use,
          ...(allowed !== undefined && { allowed }),
          ...(lowered !== undefined && { lowered }),
        },
      ],
    ];
  });
  return Object.fromEntries(uses) as Partial<Record<keyof typeof AMOUNTS, LimitUse>>;
}
