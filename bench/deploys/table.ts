/** The matrix as tables of docs/deploy.md. */

import { cellOf, EDITS, type Edit, type Flavor, idOf, STATES, type State } from "./cells.ts";
import { isHarmed, type Outcome } from "./outcome.ts";
import type { Said } from "./said.ts";

const START = "<!-- matrix:start -->";
const END = "<!-- matrix:end -->";

/** What stands in a cell. */
export function wordOf({ end, twice, missing }: Outcome): string {
  if (end === "failed") return "fails";
  if (end !== "ended") return "stranded";
  if (twice.length > 0) return "twice";
  if (missing.length === 0) return "ok";
  // The run of a task that is not declared any more is kept.
  return missing.length === 1 && missing[0] === "task" ? "paused" : "lost";
}

type Results = {
  readonly outcomes: ReadonlyMap<string, Outcome>;
  readonly said: ReadonlyMap<string, Said>;
};

/** Runs that were harmed, of which the check had said nothing. */
export function unsaid({ outcomes, said }: Results): Outcome[] {
  // A task that is no longer declared is paused, which is a warning.
  const isSaid = ({ id }: Outcome) =>
    said.get(id)?.severity === "error" || (cellOf(id).edit === "rename-task" && said.has(id));
  return [...outcomes.values()].filter(
    (outcome) => !outcome.id.startsWith("plain") && isHarmed(outcome) && !isSaid(outcome),
  );
}

/** Runs without an edit, or with `versions()`, that were harmed or of which an error was said. */
export function unspared({ outcomes, said }: Results): Outcome[] {
  return [...outcomes.values()].filter((outcome) => {
    const { flavor, edit } = cellOf(outcome.id);
    const isSpared = edit === "none" || flavor === "versioned";
    return isSpared && (isHarmed(outcome) || said.get(outcome.id)?.severity === "error");
  });
}

/** Errors for runs that went on well. */
export function falseAlarms({ outcomes, said }: Results): Outcome[] {
  return [...outcomes.values()].filter(
    (outcome) => !isHarmed(outcome) && said.get(outcome.id)?.severity === "error",
  );
}

function textOf({ outcomes, said }: Results, id: string): string {
  const outcome = outcomes.get(id);
  if (!outcome) return "";
  const word = wordOf(outcome);
  const before = said.get(id)?.severity;
  return before === undefined ? word : `${before}: ${word}`;
}

function tableOf(results: Results, flavor: Flavor): string {
  const ids = (edit: Edit, state: State) => idOf({ flavor, edit, state });
  const has = (edit: Edit, state: State) => results.outcomes.has(ids(edit, state));
  const states = (Object.keys(STATES) as State[]).filter((state) => has("none", state));
  const edits = (Object.keys(EDITS) as Edit[]).filter((edit) => has(edit, "before"));
  const row = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  return [
    row(["edit", ...states.map((state) => STATES[state].title)]),
    `|---${"|---".repeat(states.length)}|`,
    ...edits.map((edit) =>
      row([EDITS[edit], ...states.map((state) => textOf(results, ids(edit, state)))]),
    ),
  ].join("\n");
}

/** @throws Error for a page without the marks */
export function written(page: string, results: Results): string {
  const [before, rest] = page.split(`${START}\n`);
  const [, after] = rest?.split(END) ?? [];
  if (before === undefined || after === undefined)
    throw new Error(`The page has no ${START} and ${END}`);
  const tables = [
    tableOf(results, "perdure"),
    "",
    "The same where `versions()` keeps the old class beside the new one:",
    "",
    tableOf(results, "versioned"),
    "",
    "The same for workflows of the platform alone, of which nothing is said before:",
    "",
    tableOf(results, "plain"),
  ];
  return `${before}${START}\n\n${tables.join("\n")}\n\n${END}${after}`;
}
