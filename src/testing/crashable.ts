/**
 * Classes of objects that a test can end at any write. Knows each life of
 * theirs by the object's id; what a life does and where it ends is its own.
 */

import { subscribe } from "node:diagnostics_channel";
import { preview } from "../core/json.ts";
import { Life } from "./life.ts";
import { metered } from "./meter.ts";

/** All lives of one object, of which only the present one is kept. */
export class Lives {
  /** How many there have been. */
  count = 0;
  /** The present one, or the last. */
  latest: Life | undefined;
  /** Delivery ids that a destination has taken, in any life. */
  readonly taken = new Set<string>();

  /** @param born called at the end of the construction of each life, before it starts */
  constructor(
    readonly name: string | undefined,
    readonly born: ((life: Life, count: number) => void) | undefined,
  ) {}
}

type Class = new (...args: never[]) => object;

/** By the id of the object. */
const watched = new Map<string, Lives>();
/** Present lives of watched objects, by class and name, as events say it. */
const byAddress = new Map<string, { life: Life; lives: Lives }>();
const crashables = new WeakSet<object>();
/** Those that are being constructed, or were: a class made crashable twice is watched once. */
const seen = new WeakSet<DurableObjectState>();
let isListening = false;

/**
 * The same class, whose objects {@link crashAtEveryWrite} can crash. For the worker of the tests, under the name that
 * the binding says: `export class Triage extends crashable(TriageAgent) {}` or `export const Triage = crashable(TriageAgent)`.
 * The class keeps its name, and its objects do nothing else than before until a test watches them.
 *
 * @throws TypeError for what is no class
 */
export function crashable<Base extends Class>(base: Base): Base {
  if (typeof base !== "function") {
    throw new TypeError(`crashable() was given ${preview(base)}; expected the class of an object.`);
  }
  if (crashables.has(base)) return base;
  listen();
  const watching = new Proxy(base, {
    construct(target, [ctx, ...rest]: [DurableObjectState, ...unknown[]], newTarget) {
      const begin = before(ctx, newTarget.prototype.constructor.name as string);
      const object = Reflect.construct(target, [ctx, ...rest], newTarget) as object;
      begin?.();
      return object;
    },
  });
  crashables.add(watching);
  return watching;
}

/** From now on the lives of that object are known; to be called before it is constructed. */
export function watchLives(
  { id, name }: DurableObjectStub,
  born?: (life: Life, count: number) => void,
): Lives {
  const lives = new Lives(name, born);
  watched.set(id.toString(), lives);
  return lives;
}

/** The object is let go, and what it does next is not seen any more. */
export function forgetLives({ id }: DurableObjectStub): void {
  const lives = watched.get(id.toString());
  lives?.latest?.release();
  watched.delete(id.toString());
  for (const [address, known] of byAddress) if (known.lives === lives) byAddress.delete(address);
}

/** What is known of an object's lives, if it is watched. */
export function livesOf({ id }: DurableObjectStub): Lives | undefined {
  return watched.get(id.toString());
}

/** Puts a life in front of the object's storage. Returns what is to be done once it is constructed. */
function before(ctx: DurableObjectState, className: string): (() => void) | undefined {
  const lives = watched.get(ctx.id.toString());
  const { name } = ctx.id;
  // A sub-agent may have its root's id.
  const isOther = lives?.name !== undefined && name !== undefined && lives.name !== name;
  if (!lives || isOther || seen.has(ctx)) return undefined;
  seen.add(ctx);
  const life = new Life(ctx, ctx.storage.sql);
  metered(ctx, life);
  lives.latest = life;
  lives.count++;
  byAddress.set(`${className}/${name}`, { life, lives });
  return () => lives.born?.(life, lives.count);
}

type OutboxEvent = {
  readonly type: string;
  readonly agent: string;
  readonly name: string;
  readonly payload: { readonly id: string; readonly attempt: number; readonly kind: string };
};

/** Once for all objects: what their outboxes publish. */
function listen(): void {
  if (isListening) return;
  isListening = true;
  subscribe("agents:lifecycle", (message) => {
    const { type, agent, name, payload } = message as OutboxEvent;
    const known = byAddress.get(`${agent}/${name}`);
    if (!known) return;
    const { id, attempt, kind } = payload;
    if (type === "outbox:attempt") known.life.attempting(id, attempt, kind);
    if (type !== "outbox:delivered") return;
    known.lives.taken.add(id);
    known.life.taken(id, attempt);
  });
}
