/** An agent's calls of keepers: which object keeps a limit, the time limit of a call, and no calls for a while after a failure. */

import { lacksMethod } from "../../core/calls.ts";
import { type Clock, Deadlines, systemClock } from "../../core/clock.ts";
import { backoffMs, failureOf } from "../../core/failures.ts";
import { preview } from "../../core/json.ts";
import { invalidOption } from "../../core/options/options.ts";
import { bindingsOf, NAMESPACE } from "../../outbox/destinations/bindings.ts";
import type { DeclaredLimit } from "./declared/declarations.ts";
import { InvalidKeeperCallError } from "./errors.ts";
import type { LimitKeeper } from "./keeper/keeper.ts";
import {
  ALL_KEYS,
  type Answer,
  type Ask,
  type Notice,
  type Observation,
  type Return,
  type Rule,
  type Rules,
} from "./keeper/protocol.ts";

/** What names the keepers of a limit. */
export type KeptLimit = Pick<DeclaredLimit, "name" | "shards">;

/** The calls of a keeper. A stub has each of them as a promise. */
type Calls = Pick<LimitKeeper, "ask" | "giveBack" | "observe" | "pause" | "resume" | "list">;

/** A keeper that could not be reached. */
type Failed = {
  /** No calls until then, by the clock. */
  until: number;
  readonly failures: number;
  /** The last call that was under way when it failed: such calls fail once together. */
  readonly lastCall: number;
  readonly cause: unknown;
};

const CALL_MS = 5_000;
const BACKOFF = { baseMs: 1_000, capMs: 30_000 };
/** Submissions bring keys of their own, each with a keeper. */
const MAX_FAILED = 1_000;
/** The binding leads to another class, which has a method of this name for something else. */
const NO_KEEPER = new Error("It is no LimitKeeper");

/** A keeper did not answer, or its object failed. What was asked of it waits, or runs without it: `whenUnreachable`. */
export class KeeperUnreachableError extends Error {
  override readonly name = "KeeperUnreachableError";
  constructor(
    /** The name of the object: the limit, and its shard if it has more than one. */
    readonly keeper: string,
    /** It is not called again before. */
    readonly retryAfterMs: number,
    cause: unknown,
    /** The binding in `env`. */
    binding = "LIMIT_KEEPER",
  ) {
    const methods = ["ask", "giveBack", "observe", "pause", "resume", "list"];
    const isOther = cause === NO_KEEPER || methods.some((method) => lacksMethod(cause, method));
    const problem = isOther
      ? `the binding ${preview(binding)} leads to a class that is not LimitKeeper. Correct its class_name in the Wrangler configuration.`
      : failureOf(cause).message;
    super(`The keeper ${preview(keeper)} could not be reached: ${problem}`, { cause });
  }
}

export class Keepers {
  readonly #namespace: DurableObjectNamespace<LimitKeeper>;
  readonly #deadlines: Deadlines;
  /** By the name of the keeper. */
  readonly #failed = new Map<string, Failed>();
  /** Calls so far. */
  #calls = 0;

  /**
   * @param binding the name of the binding of LimitKeeper
   * @param callMs how long a keeper may take to answer
   * @throws InvalidOptionError if there is no such binding
   */
  constructor(
    env: object,
    private readonly binding: string,
    private readonly clock: Clock = systemClock,
    private readonly callMs = CALL_MS,
  ) {
    const found = bindingsOf(env, NAMESPACE).find(([name]) => name === binding)?.[1];
    if (!found) throw invalidOption("keeper", binding, remedyOf(env));
    this.#namespace = found as unknown as DurableObjectNamespace<LimitKeeper>;
    this.#deadlines = new Deadlines(callMs);
  }

  /**
   * @param root names the agent, or the root of a sub-agent: an unkeyed limit with shards gives each of them one shard
   * @param ask its `returns` are of the same key
   * @throws KeeperUnreachableError; the keeper may have lent nevertheless, until the end of the lease
   * @throws InvalidKeeperCallError, which a repetition does not change
   */
  async ask(limit: KeptLimit, root: string, ask: Ask): Promise<Answer> {
    return this.call(keeperOf(limit, ask.key, root), async (keeper) => {
      const answer = await keeper.ask(ask);
      if (typeof answer?.outcome !== "string") throw NO_KEEPER;
      return answer;
    });
  }

  /**
   * Sends each return at most once: a second one would free capacity that is in use. What is lost is free at the end of its
   * lease. Never rejects. Resolves with the notices that the use calls for.
   */
  async giveBack(limit: KeptLimit, root: string, returns: readonly Return[]): Promise<Notice[]> {
    const byKeeper = Map.groupBy(returns, ({ key }) => keeperOf(limit, key, root));
    const sent = Array.from(byKeeper, ([name, own]) =>
      this.#once(name, (keeper) => keeper.giveBack(own)),
    );
    const notices = await Promise.all(sent);
    return notices.flatMap((some = []) => some);
  }

  /** Sends at most once what a provider says. Never rejects: the provider says it again. */
  async observe(
    limit: KeptLimit & Pick<DeclaredLimit, "keyOf">,
    root: string,
    observation: Observation,
  ): Promise<void> {
    const isOfAll = limit.keyOf !== undefined && observation.key === ALL_KEYS;
    const names = isOfAll ? keepersOf(limit) : [keeperOf(limit, observation.key, root)];
    await Promise.all(
      names.map((name) => this.#once(name, (keeper) => keeper.observe(observation))),
    );
  }

  /** @throws KeeperUnreachableError, or InvalidKeeperCallError */
  async call<T>(name: string, call: (keeper: Calls) => Promise<T>): Promise<T> {
    const now = this.clock.now();
    const failed = this.#failed.get(name);
    const number = ++this.#calls;
    if (failed) {
      const waitMs = failed.until - now;
      // A clock that was set back must not keep a keeper away.
      if (waitMs > 0 && waitMs <= BACKOFF.capMs + this.callMs)
        throw new KeeperUnreachableError(name, waitMs, failed.cause, this.binding);
      // This call tries it for all.
      failed.until = now + this.callMs;
    }
    try {
      // A new stub: one whose object went down stays broken.
      const keeper = this.#namespace.getByName(name) as unknown as Calls;
      const result = await this.#deadlines.within(call(keeper));
      this.#failed.delete(name);
      return result;
    } catch (error) {
      const invalid = InvalidKeeperCallError.of(error);
      if (!invalid) throw this.#note(name, error, number);
      this.#failed.delete(name);
      throw invalid;
    }
  }

  #note(name: string, cause: unknown, call: number): KeeperUnreachableError {
    const now = this.clock.now();
    const before = this.#failed.get(name);
    if (!before || call > before.lastCall) {
      const failures = (before?.failures ?? 0) + 1;
      const ceiling = backoffMs(failures, BACKOFF, 1);
      const until = now + Math.ceil((ceiling / 2) * (1 + this.clock.random()));
      this.#failed.delete(name);
      this.#failed.set(name, { until, failures, lastCall: this.#calls, cause });
      const [oldest] = this.#failed.keys();
      if (this.#failed.size > MAX_FAILED && oldest !== undefined) this.#failed.delete(oldest);
    }
    const until = this.#failed.get(name)?.until ?? now;
    return new KeeperUnreachableError(name, Math.max(0, until - now), cause, this.binding);
  }

  async #once<T>(name: string, call: (keeper: Calls) => Promise<T>): Promise<T | undefined> {
    try {
      return await this.call(name, call);
    } catch (error) {
      if (!(error instanceof KeeperUnreachableError))
        console.error(`[perdure] The keeper ${preview(name)} has refused a call:`, error);
      return undefined;
    }
  }
}

/** The name of the object that keeps a key of a limit. */
export function keeperOf({ name, shards }: KeptLimit, key: string, root: string): string {
  return shards === 1 ? name : `${name}/${hashOf(key || root) % shards}`;
}

/** The names of all objects that keep a limit, in the order of their shards. */
export function keepersOf({ name, shards }: KeptLimit): string[] {
  if (shards === 1) return [name];
  return Array.from({ length: shards }, (_, shard) => `${name}/${shard}`);
}

/** What each keeper of a limit lends: the shards of a limit without keys divide its amounts. */
export function rulesOfShard({
  rules,
  shards,
  keyOf,
}: Pick<DeclaredLimit, "rules" | "shards" | "keyOf">): Rules {
  if (keyOf || shards === 1) return rules;
  const part = (amount: number) => Math.max(1, Math.floor(amount / shards));
  const parts = Object.entries(rules).map(([name, rule]: [string, Rule | number]) => [
    name,
    typeof rule === "number" ? part(rule) : { ...rule, amount: part(rule.amount) },
  ]);
  return Object.fromEntries(parts) as Rules;
}

/** FNV-1a of the UTF-16 code units. Never change it: a key would move to another keeper. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index++)
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193) >>> 0;
  return hash;
}

function remedyOf(env: object): string {
  const names = bindingsOf(env, NAMESPACE).map(([name]) => preview(name));
  return (
    `the name of the binding of LimitKeeper. This Worker has ${names.slice(0, 20).join(", ") || "none"}. ` +
    'Write export { LimitKeeper } from "perdure/limits" in the Worker, and add to the Wrangler configuration ' +
    '{ "name": "LIMIT_KEEPER", "class_name": "LimitKeeper" } in "durable_objects.bindings", and "LimitKeeper" in ' +
    '"new_sqlite_classes" of a new migration'
  );
}
