/** What has become of a cell after the deploy. */

import type { Status } from "./app.ts";
import { type Cell, cellOf } from "./cells.ts";
import type { Desked } from "./desk.ts";

export type Outcome = {
  readonly id: string;
  /**
   * `ended`: it returned. `failed`: it threw. `stranded`: it waits for what does not come again. `gone`: the new code cannot
   * find it.
   */
  readonly end: "ended" | "failed" | "stranded" | "gone";
  /** What happened more than once: effects, and questions to a person. */
  readonly twice: readonly string[];
  /** Effects that did not happen, though the run returned. */
  readonly missing: readonly string[];
  readonly error?: string;
};

/** Work has not ended, was not done, or was done again. */
export const isHarmed = ({ end, twice, missing }: Outcome): boolean =>
  end !== "ended" || twice.length > 0 || missing.length > 0;

export function outcomeOf(
  id: string,
  desk: Desked | undefined,
  { status, error }: Status,
): Outcome {
  const effects = Object.entries(desk?.effects ?? {});
  const twice = effects.filter(([, times]) => times > 1).map(([what]) => what);
  const missing = expectedOf(cellOf(id)).filter((what) => !desk?.effects[what]);
  const ends: Record<string, Outcome["end"]> = {
    complete: "ended",
    errored: "failed",
    terminated: "failed",
    gone: "gone",
  };
  const end = ends[status] ?? "stranded";
  return { id, end, twice, missing: end === "ended" ? missing : [], ...(error && { error }) };
}

/** The effects of a run. With `versions()` it goes on as if there were no edit. */
function expectedOf({ flavor, edit: made, state }: Cell): string[] {
  const edit = flavor === "versioned" ? "none" : made;
  const inserted = edit.startsWith("insert") ? ["inserted"] : [];
  const task = edit === "rename-task" ? ["task"] : [];
  return ["begin", "side", "end", ...inserted, ...task, ...stepOf({ flavor, edit, state })];
}

function stepOf({ flavor, edit, state }: Cell): string[] {
  if (edit === "remove" || edit === "change-kind" || state === "webhook") return [];
  if (state === "approval") return ["decided"];
  if (state === "batch") return ["first", "second"];
  return flavor === "plain" && state === "waiting" ? [] : ["step"];
}
