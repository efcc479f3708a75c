/** Races of steps in a project's sources: what `perdure doctor` and `perdure check` warn of. */

import { afterEach, describe, expect, it } from "vitest";
import { newAgents } from "../../src/cli/deploy/agents.ts";
import { checkConfiguration } from "../../src/cli/deploy/configuration.ts";
import { newProject } from "../../src/cli/deploy/project.ts";
import { agentWork, historyOf, itemOf, snapshotOf } from "./deploy/snapshots.ts";
import { checked, configOf, problemsOf, project, removeProjects } from "./fixtures.ts";

afterEach(removeProjects);

const HEAD = `
import { DurableThink } from "perdure/think";
import { ThinkWorkflow } from "perdure/workflow";
export class Desk extends DurableThink<Env> {}
`;
const tickets = (body: string) =>
  `${HEAD}export class Tickets extends ThinkWorkflow<Desk> {\n  async run(event, step) {\n${body}\n  }\n}\n`;

const RACES: [string, string, string][] = [
  ["Promise.race()", "return Promise.race([step.approval('a'), step.sleep('b', 1)]);", "race"],
  ["Promise.any()", "const all = waits(step);\nreturn await Promise.any(all);", "any"],
  ["a branch that is a function", "await Promise.race([ask(step), step.sleep('b', 1)]);", "race"],
  [
    "a list of steps",
    "const all = waits(step);\nawait Promise.race([...all, step.sleep('b', 1)]);",
    "race",
  ],
  ["a name in brackets", "await Promise['race']([ask(step), step.sleep('b', 1)]);", "race"],
  ["a call with ?.", "await Promise?.any([ask(step), step.sleep('b', 1)]);", "any"],
  ["globalThis", "await globalThis.Promise.race([ask(step), step.sleep('b', 1)]);", "race"],
  ["an assertion", "await (Promise as any).race([ask(step), step.sleep('b', 1)]);", "race"],
  ["call()", "await Promise.race.call(Promise, [ask(step), step.sleep('b', 1)]);", "race"],
  ["another name of Promise", "const P = Promise;\nawait P.race([ask(step)]);", "race"],
  [
    "a method taken out",
    "const { race: first } = Promise;\nawait first.call(Promise, []);",
    "race",
  ],
  ["a bound method", "const first = Promise.any.bind(Promise);\nawait first([ask(step)]);", "any"],
];
const NONE: [string, string][] = [
  ["step.race()", "await step.race('first', { a: step.sleep('a', 1), b: step.sleep('b', 1) });"],
  ["race() of another object", "await step.race('a', {}); await cars.race([]); race();"],
  ["another method taken out", "const { all } = Promise; await all.call(Promise, []);"],
  ["Promise.all()", "await Promise.all([step.sleep('a', 1), step.sleep('b', 1)]);"],
  [
    "a race in the code of a step, which the platform stores",
    "await step.do('fastest', () => Promise.race([fetch('https://a.example'), fetch('https://b.example')]));",
  ],
];

const config = configOf(["Desk"], ["Tickets"]);
const files = (source: string, others: Readonly<Record<string, string>> = {}) =>
  project({ "wrangler.jsonc": config, "src/index.ts": source, ...others });

/** What check finds for one open run. */
function found(folder: string) {
  const code = newProject(folder, undefined);
  const params = { __agentName: "main", __agentBinding: "Desk" };
  const work = [itemOf("workflow", "w-1", [{ what: "workflow", name: "Tickets" }])];
  const snapshot = snapshotOf([
    agentWork("Desk", "main", work, [historyOf("Tickets", "w-1", { params })]),
  ]);
  return checkConfiguration(code, newAgents(code), snapshot).problems;
}

describe.each(RACES)("%s in run()", (_, body, method) => {
  it("is a warning of doctor, with its line and the remedy", () => {
    const results = checked(files(tickets(body))).filter(({ level }) => level === "warning");
    expect(results).toHaveLength(1);
    const line = body.startsWith("const") ? 8 : 7;
    expect(results[0]?.text).toBe(
      `src/index.ts:${line} calls Promise.${method}() in a workflow: a replay may take another branch`,
    );
    expect(results[0]?.remedy).toContain("step.race(");
  });

  it("is a warning of check for each open run", () => {
    expect(found(files(tickets(body)))).toMatchObject([
      { kind: "workflow", id: "w-1", problem: "race", severity: "warning" },
    ]);
  });
});

it.each(NONE)("%s is no warning", (_, body) => {
  const folder = files(tickets(body));
  expect(problemsOf(checked(folder))).toEqual([]);
  expect(found(folder)).toEqual([]);
});

it("finds a race by another name of Promise in another file", () => {
  const source = `import { P } from "./names.ts";\n${tickets("return P.race([ask(step)]);")}`;
  const folder = files(source, { "src/names.ts": "export const P = Promise;" });
  expect(problemsOf(checked(folder))).toEqual([
    "src/index.ts:8 calls Promise.race() in a workflow: a replay may take another branch",
  ]);
});

it("finds a race in a helper that takes the step, also in another file, and none in other code", () => {
  const helper = `import type { ThinkWorkflowStep } from "perdure/workflow";
export const first = async (its: ThinkWorkflowStep) =>
  Promise.race([its.sleep("a", 1), its.approval("b")]);
export const quick = () => Promise.race([fetch("https://a.example"), wait(5)]);
`;
  const source = `import { first } from "./waits.ts";\n${tickets("return first(step);")}`;
  const folder = files(source, { "src/waits.ts": helper });
  expect(problemsOf(checked(folder))).toEqual([
    "src/waits.ts:3 calls Promise.race() in a workflow: a replay may take another branch",
  ]);
  expect(found(folder)).toMatchObject([{ problem: "race", id: "w-1" }]);
});
