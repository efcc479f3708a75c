/** What an action has done, and what the actions on single items share. */

import { failureOf } from "../../core/failures.ts";
import { type Json, jsonOf } from "../../core/json.ts";
import type { OperatedAgent } from "../operated.ts";
import type { OperateResult } from "../protocol.ts";

export type Effect = Omit<OperateResult, "auditId" | "after"> & {
  /** For the audit log. */
  readonly error?: string;
};

/** Who acts, and why. */
export type Operator = { readonly by: string; readonly reason: string; readonly auditId: string };

/** An action on a single item. */
export type ItemVerb<Of> = {
  /** What the item is called in `failed`. */
  readonly id: (action: Of) => string;
  /** What the action would do now. Writes nothing. */
  readonly look: (operated: OperatedAgent, action: Of) => Promise<Effect>;
  readonly act: (operated: OperatedAgent, action: Of, operator: Operator) => Promise<Effect>;
  /** The item as it is now. */
  readonly after: (operated: OperatedAgent, action: Of) => Promise<unknown>;
};

const NONE = { count: 0, failed: [] } as const;

export const done = (count = 1): Effect => ({ outcome: "done", count, failed: [] });
export const UNCHANGED: Effect = { ...NONE, outcome: "unchanged" };
export const NOT_FOUND: Effect = { ...NONE, outcome: "not-found" };

const MAX_ERROR = 1_000;

/** The message of what was thrown, bounded. */
export function messageOf(error: unknown): string {
  const { message } = failureOf(error);
  return message.length <= MAX_ERROR ? message : `${message.slice(0, MAX_ERROR).toWellFormed()}...`;
}

export function failed(id: string, error: unknown): Effect {
  const message = messageOf(error);
  return { outcome: "failed", count: 0, failed: [{ id, error: message }], error: message };
}

/** UTF-16 units of the JSON of an item in a result. */
const MAX_AFTER = 65_536;

/** A value as JSON. Where it is large, without its largest fields, whose names are in `omitted`. */
export function boundedJson(value: unknown): Json | undefined {
  const json = jsonOf(value);
  if (json === undefined || JSON.stringify(json).length <= MAX_AFTER) return json;
  if (typeof json !== "object" || json === null || Array.isArray(json)) return undefined;
  const sizes = Object.entries(json)
    .map(([name, field]) => ({ name, size: name.length + JSON.stringify(field).length }))
    .sort((one, other) => other.size - one.size);
  let left = sizes.reduce((sum, { size }) => sum + size, 0);
  const omitted: string[] = [];
  for (const { name, size } of sizes) {
    if (left <= MAX_AFTER) break;
    left -= size;
    omitted.push(name);
  }
  const kept = Object.entries(json).filter(([name]) => !omitted.includes(name));
  return { ...Object.fromEntries(kept), omitted };
}

const queues = new WeakMap<DurableObjectStorage, Map<string, Promise<unknown>>>();

/** Runs the actions on one item one after the other, so that each finds what the one before has done. */
export async function oneByOne<T>(
  { storage }: OperatedAgent,
  key: string,
  work: () => Promise<T>,
): Promise<T> {
  const queue = queues.get(storage) ?? new Map<string, Promise<unknown>>();
  queues.set(storage, queue);
  const running = (queue.get(key) ?? Promise.resolve()).then(work);
  const ended = running.catch(() => {});
  queue.set(key, ended);
  try {
    return await running;
  } finally {
    if (queue.get(key) === ended) queue.delete(key);
  }
}
