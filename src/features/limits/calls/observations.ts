/** Passes on to the keepers what a provider says of its limits, where it says something new: for all agents at once. */

import type { Clock } from "../../../core/clock.ts";
import type { Capacity, Held, WorkLimit } from "../capacity.ts";
import { ALL_KEYS, type Observation, type Rules } from "../keeper/protocol.ts";
import { comparable, type ProviderResponse, readLimitHeaders, refusalOf } from "./headers.ts";

/** Of each key of a limit, at most one in this time. */
const OBSERVED_MS = 5_000;
/** What is less than declared is repeated: keepers forget it after twice this time. */
const REPEAT_MS = 300_000;
/** Keys of limits of which the latest observation is remembered. */
const MAX_OBSERVED = 1_000;

export class Observations {
  /** By limit and key. */
  readonly #latest = new Map<string, { readonly at: number; readonly allowed: string }>();

  constructor(
    private readonly capacity: Capacity,
    private readonly clock: Clock,
  ) {}

  /** @returns whether it is a refusal that the keepers know of: they say when to try again */
  async add(held: readonly Held[], response: ProviderResponse): Promise<boolean> {
    const now = this.clock.now();
    const refused = refusalOf(response, now);
    const { allowed } = readLimitHeaders(response.headers, now);
    if (!refused && Object.keys(allowed).length === 0) return false;
    const accounts = accountsOf(held);
    const passed = accounts.map(({ need }) => {
      // What was lent before must not be used now.
      if (refused) this.capacity.giveBack(need);
      const { limit } = need;
      const { rules, name } = limit;
      const isAccount = standsForAccount(limit);
      // The provider's account is that of all keys. Its limits are none of the key's.
      const key = isAccount ? need.key : ALL_KEYS;
      const ofMinute = isAccount ? comparable(allowed, rules) : {};
      if (!this.#isNew(`${name}\n${key}`, ofMinute, rules, refused !== undefined)) return undefined;
      const isEmpty = Object.keys(ofMinute).length === 0;
      const seen = { ...(!isEmpty && { allowed: ofMinute }), ...(refused && { refused }) };
      return this.capacity.observe(need, { key, rules, ...seen });
    });
    await Promise.all(passed);
    return refused !== undefined && accounts.length > 0;
  }

  #isNew(id: string, allowed: Allowed, rules: Rules, isRefused: boolean): boolean {
    const now = this.clock.now();
    const before = this.#latest.get(id);
    if (before && now - before.at < OBSERVED_MS) return false;
    const text = JSON.stringify(allowed);
    const isRepeated = !before || now - before.at >= REPEAT_MS;
    const isChanged = isRepeated ? isLess(allowed, rules) : before.allowed !== text;
    if (!isRefused && !isChanged) return false;
    this.#latest.delete(id);
    this.#latest.set(id, { at: now, allowed: text });
    const [oldest] = this.#latest.keys();
    if (this.#latest.size > MAX_OBSERVED && oldest !== undefined) this.#latest.delete(oldest);
    return true;
  }
}

type Allowed = NonNullable<Observation["allowed"]>;

/** Whether the provider allows less than the app has declared. */
function isLess({ requests = Infinity, tokens = Infinity }: Allowed, rules: Rules): boolean {
  return requests < (rules.requests?.amount ?? 0) || tokens < (rules.tokens?.amount ?? 0);
}

/** A limit of models is that of an account, for each of its keys. One without keys is that of all agents. */
function standsForAccount({ declared }: WorkLimit): boolean {
  return declared !== undefined && (declared.isOfModels || !declared.keyOf);
}

/** The limits that a refusal closes: those of models, else those that all agents share, else those of keys as a whole. */
function accountsOf(held: readonly Held[]): readonly Held[] {
  const all = held.filter(({ need }) => need.limit.declared);
  const ofModels = all.filter(({ need }) => need.limit.declared?.isOfModels);
  const shared =
    ofModels.length > 0 ? ofModels : all.filter(({ need }) => standsForAccount(need.limit));
  return shared.length > 0 ? shared : all;
}
