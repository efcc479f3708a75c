/** The matrix of deploys: what is counted as harm, what as said before, and the tables. */

import { describe, expect, it } from "vitest";
import { allCells, bindingsOf, type Cell, cellOf, idOf } from "../../bench/deploys/cells.ts";
import { isHarmed, outcomeOf } from "../../bench/deploys/outcome.ts";
import { saidOf } from "../../bench/deploys/said.ts";
import { falseAlarms, unsaid, unspared, wordOf, written } from "../../bench/deploys/table.ts";

const EFFECTS = { begin: 1, step: 1, side: 1, end: 1 };
const cell = (edit: Cell["edit"], state: Cell["state"]) => idOf({ flavor: "perdure", edit, state });
const AFTER = cell("rename-step", "after");

function given(id: string, effects: object = EFFECTS, status = "complete") {
  return outcomeOf(id, { effects: effects as typeof EFFECTS, asked: [] }, { status });
}

const problem = (name: string, severity: "error" | "warning", kind = "inserted") =>
  ({ name, severity, problem: kind, text: "" }) as const;

const results = (outcomes: ReturnType<typeof given>[], problems: ReturnType<typeof problem>[]) => ({
  outcomes: new Map(outcomes.map((outcome) => [outcome.id, outcome])),
  said: saidOf({ problems, notChecked: [] }),
});

it("each cell has an id of its own, by which it is found again", () => {
  const cells = allCells();
  const ids = cells.map(idOf);
  expect(new Set(ids).size).toBe(ids.length);
  expect(ids.map(cellOf)).toEqual(cells);
});

it("an edit of bindings changes those of its cells only", () => {
  const changed = allCells().filter(
    (each) => JSON.stringify(bindingsOf(each, "old")) !== JSON.stringify(bindingsOf(each, "new")),
  );
  const edits = new Set(changed.map(({ edit }) => edit));
  expect([...edits].sort()).toEqual(["rename-binding", "rename-workflow"]);
});

describe("an outcome", () => {
  it.each([
    ["ok", given(AFTER)],
    ["twice", given(AFTER, { ...EFFECTS, step: 2 })],
    ["paused", given(cell("rename-task", "in"))],
    ["fails", given(AFTER, {}, "errored")],
    ["stranded", given(AFTER, {}, "waiting")],
    ["stranded", given(AFTER, {}, "gone")],
  ])("is %s", (word, outcome) => {
    expect(wordOf(outcome)).toBe(word);
    expect(isHarmed(outcome)).toBe(word !== "ok");
  });

  it("has the effects of its step only where the new code still has it", () => {
    const { step: _, ...others } = EFFECTS;
    expect(wordOf(given(cell("remove", "after"), others))).toBe("ok");
    expect(wordOf(given(cell("none", "after"), others))).toBe("lost");
    expect(wordOf(given(cell("insert-before", "after")))).toBe("lost");
  });
});

describe("what was said before", () => {
  const twice = given(AFTER, { ...EFFECTS, step: 2 });

  it("is an error: a warning or nothing is too little for a run that was harmed", () => {
    expect(unsaid(results([twice], []))).toEqual([twice]);
    expect(unsaid(results([twice], [problem(AFTER, "warning")]))).toEqual([twice]);
    const both = [problem(AFTER, "warning"), problem(AFTER, "error")];
    expect(unsaid(results([twice], both))).toEqual([]);
    const lost = given(cell("rename-task", "in"));
    expect(unsaid(results([lost], []))).toEqual([lost]);
    expect(unsaid(results([lost], [problem(cell("rename-task", "in"), "warning")]))).toEqual([]);
    expect(unsaid(results([twice], [problem(cell("none", "after"), "error")]))).toEqual([twice]);
  });

  it("is a false alarm for a run that ended well", () => {
    const well = given(AFTER);
    expect(falseAlarms(results([well], [problem(AFTER, "error")]))).toEqual([well]);
    expect(falseAlarms(results([well], [problem(AFTER, "warning")]))).toEqual([]);
  });

  it("must be nothing for a run without an edit, or with versions(), which must go on", () => {
    const spared = [
      cell("none", "in"),
      idOf({ flavor: "versioned", edit: "remove", state: "after" }),
    ];
    for (const id of spared) {
      const [well, harmed] = [given(id), given(id, { ...EFFECTS, step: 2 })];
      expect(unspared(results([well], []))).toEqual([]);
      expect(unspared(results([well], [problem(id, "error")]))).toEqual([well]);
      expect(unspared(results([harmed], []))).toEqual([harmed]);
    }
    expect(unspared(results([twice], []))).toEqual([]);
  });

  it("has each problem of a run once, those of the worst severity", () => {
    const problems = [
      problem(AFTER, "warning", "reordered"),
      problem(AFTER, "error"),
      problem(AFTER, "error"),
    ];
    const notChecked = [{ name: AFTER, why: "cut" }];
    expect(saidOf({ problems, notChecked }).get(AFTER)).toEqual({
      ...{ severity: "error", problems: ["inserted"] },
    });
  });
});

it("the tables replace what stands between the marks", () => {
  const page = "before\n<!-- matrix:start -->\nthe table before\n<!-- matrix:end -->\nafter\n";
  const none = allCells().filter(({ edit }) => edit === "none");
  const all = results(
    none.map((each) => given(idOf(each), {}, "waiting")),
    [problem(cell("none", "in"), "warning")],
  );
  const text = written(page, all);
  expect(text).toMatch(
    /^before\n<!-- matrix:start -->\n\n\| edit \| before the step \| in the step/,
  );
  expect(text).toContain("| none | stranded | warning: stranded | stranded |");
  expect(text).toMatch(/<!-- matrix:end -->\nafter\n$/);
  expect(text).not.toContain("the table before");
  expect(written(text, all)).toBe(text);
  expect(() => written("no marks", all)).toThrow("has no <!-- matrix:start -->");
});
