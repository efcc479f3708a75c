/** What `check` finds, and how it is printed. */

import { plural } from "../../engine/operated/text.ts";
import type { Version } from "../../features/deploy/types.ts";
import { paint, plain } from "../print/text.ts";

/** Something that the new code cannot take. */
export type Problem = {
  readonly agent: string;
  readonly name: string;
  /** Of the item. `class` and `binding` are what many items need: their `id` is its name. */
  readonly kind: string;
  readonly id: string;
  readonly version: Version;
  /** E.g. `inserted` or `tool-gone`: docs/cli.md lists them. */
  readonly problem: string;
  /** Errors strand work, or do a step twice. */
  readonly severity: "error" | "warning";
  readonly text: string;
  readonly remedy: string;
};

/** Something that was not checked, and why. */
export type NotChecked = {
  readonly agent: string;
  readonly name: string;
  readonly id?: string;
  readonly why: string;
};

export type Checked = {
  readonly problems: readonly Problem[];
  readonly checked: {
    readonly agents: number;
    readonly items: number;
    readonly histories: number;
    readonly classes: number;
  };
  readonly notChecked: readonly NotChecked[];
};

/** Items and agents that a line names. */
const MAX_NAMED = 5;
const MAX_GAPS = 20;

const RANK = { error: 0, warning: 1 } as const;

export const isError = ({ severity }: Problem) => severity === "error";

/** Errors first, then by agent. */
export function sorted(problems: readonly Problem[]): Problem[] {
  return problems.toSorted(
    (one, other) =>
      RANK[one.severity] - RANK[other.severity] ||
      (one.agent < other.agent ? -1 : one.agent > other.agent ? 1 : 0),
  );
}

/** The same problem of many items in one group. */
export function problemLines(problems: readonly Problem[]): string[] {
  const groups = Map.groupBy(sorted(problems), (each) =>
    JSON.stringify([each.severity, each.agent, each.kind, each.problem, each.text, each.remedy]),
  );
  return [...groups.values()].flatMap((group) => {
    const [first] = group as [Problem, ...Problem[]];
    const { severity, agent, kind, text, remedy } = first;
    const about = [...new Set(group.map(aboutOf))];
    const more = about.length > MAX_NAMED ? ` and ${about.length - MAX_NAMED} more` : "";
    return [
      `${paint(severity === "error" ? "red" : "yellow", severity.toUpperCase())}  ${plain(agent)}, ${plain(kind)}: ${plain(text)}`,
      `  Of: ${about.slice(0, MAX_NAMED).join(", ")}${more}`,
      `  What to do: ${plain(remedy)}`,
      "",
    ];
  });
}

function aboutOf({ name, id, version }: Problem): string {
  const since = version === null ? "" : ` (version ${plain(version)})`;
  return `${plain(name === "" ? id : `${name} ${id}`)}${since}`;
}

export function gapLines(gaps: readonly NotChecked[]): string[] {
  if (gaps.length === 0) return [];
  const groups = [...Map.groupBy(gaps, ({ agent, why }) => JSON.stringify([agent, why])).values()];
  const lines = groups.slice(0, MAX_GAPS).map((group) => {
    const [{ agent, name, id, why }] = group as [NotChecked, ...NotChecked[]];
    const what = name === "" ? agent : `${agent}/${name}`;
    const others = group.length > 1 ? ` and ${group.length - 1} more` : "";
    return `  ${plain(what)}${id === undefined ? "" : ` ${plain(id)}`}${others}: ${plain(why)}`;
  });
  if (groups.length > MAX_GAPS)
    lines.push(`  and ${groups.length - MAX_GAPS} more; all of them with --json`);
  return ["Not checked:", ...lines, ""];
}

export function summaryOf({ problems, checked, notChecked }: Checked): string {
  const errors = problems.filter(isError).length;
  const of = `${plural(checked.items, "item")} of open work, ${plural(checked.histories, "workflow")} replayed`;
  const gaps = notChecked.length === 0 ? "" : ` ${plural(notChecked.length, "part")} not checked.`;
  if (errors > 0)
    return `${plural(errors, "error")}: the new code would strand work (${of}).${gaps}`;
  return `No errors (${of}).${gaps}`;
}
