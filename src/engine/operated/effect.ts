/** What an action has done. */

import { failureOf } from "../../core/failures.ts";
import { type Json, jsonOf } from "../../core/json.ts";

export type Effect = {
  readonly outcome: "done" | "unchanged" | "not-found" | "failed";
  /** How many were changed; for a dry run, how many would be. */
  readonly count: number;
  readonly failed: readonly { readonly id: string; readonly error: string }[];
  /** For a dry run with a filter: the first 20 of a page, with what they ended with. */
  readonly rows?: Rows;
  /** For a dry run of a restart: the steps that run again. */
  readonly runsAgain?: RunsAgain;
  readonly cursor?: string;
  /** For the audit log. */
  readonly error?: string;
};

export type Rows = readonly {
  readonly id: string;
  readonly error: string;
  readonly runsAgain?: RunsAgain;
}[];

/** The steps that a restart runs again. */
export type RunsAgain = {
  /** Where it begins: the name of a step, or null for the beginning of the run. */
  readonly from: string | null;
  /** Up to 100 steps whose code, prompt or request runs again. */
  readonly steps: readonly { readonly name: string; readonly kind: string }[];
  readonly count: number;
  /** False where the platform has not listed its steps: others may run again. */
  readonly isComplete: boolean;
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
