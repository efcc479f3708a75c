/** How `check` prints what it has found. */

import { expect, it } from "vitest";
import {
  gapLines,
  type Problem,
  problemLines,
  summaryOf,
} from "../../../src/cli/deploy/problems.ts";

const HOSTILE = "\x1b]0;owned\x07\r\nERROR\u202e";
const problem = (id: string, more: Partial<Problem> = {}): Problem => ({
  ...{ agent: "Desk", name: "main", kind: "workflow", id, version: "7" },
  ...{ problem: "inserted", severity: "error", text: "A step is new.", remedy: "Move it." },
  ...more,
});

it("prints errors first, and the same problem of many items once", () => {
  const items = Array.from({ length: 8 }, (_, nth) => problem(`w-${nth}`));
  const warning = problem("w-9", { severity: "warning", text: "It would fail.", version: null });
  expect(problemLines([warning, ...items])).toEqual([
    "ERROR  Desk, workflow: A step is new.",
    "  Of: main w-0 (version 7), main w-1 (version 7), main w-2 (version 7), main w-3 (version 7), main w-4 (version 7) and 3 more",
    "  What to do: Move it.",
    "",
    "WARNING  Desk, workflow: It would fail.",
    "  Of: main w-9",
    "  What to do: Move it.",
    "",
  ]);
});

it("data of the deployment cannot control the terminal", () => {
  const hostile = problem(HOSTILE, {
    ...{ agent: HOSTILE, name: HOSTILE, kind: HOSTILE, version: HOSTILE },
    ...{ text: HOSTILE, remedy: HOSTILE },
  });
  const gap = { agent: HOSTILE, name: HOSTILE, id: HOSTILE, why: HOSTILE };
  for (const line of [...problemLines([hostile]), ...gapLines([gap])])
    expect(line).not.toMatch(/[\p{Cc}\u202e]/u);
});

it("says how much was not checked, also where nothing was found", () => {
  const gaps = Array.from({ length: 30 }, (_, nth) => ({
    agent: `A${nth}`,
    name: "a",
    why: "silent",
  }));
  const same = [{ ...gaps[0], name: "b" } as (typeof gaps)[0], ...gaps];
  const lines = gapLines(same);
  expect(lines.slice(0, 3)).toEqual([
    "Not checked:",
    "  A0/b and 1 more: silent",
    "  A1/a: silent",
  ]);
  expect(lines.at(-2)).toBe("  and 10 more; all of them with --json");
  const checked = { agents: 1, items: 2, histories: 1, classes: 1 };
  expect(summaryOf({ problems: [], checked, notChecked: gaps })).toBe(
    "No errors (2 items of open work, 1 workflow replayed). 30 parts not checked.",
  );
});
