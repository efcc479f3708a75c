/** Each documented behaviour of Think's workflows, submissions and scheduled tasks, on Think and on DurableThink. */

import { describe, expect, it } from "vitest";
import { hookCases } from "./cases/hooks.ts";
import { intended, intendedTasks } from "./cases/intended.ts";
import { ledger } from "./cases/ledger.ts";
import { occurrences } from "./cases/occurrences.ts";
import { prompts } from "./cases/prompts.ts";
import { schedules } from "./cases/schedules.ts";
import { submissions } from "./cases/submissions.ts";
import { turns } from "./cases/turns.ts";
import { waiting } from "./cases/waiting.ts";
import { workflows } from "./cases/workflows.ts";
import { differences } from "./differences.ts";
import { compare } from "./harness.ts";

const areas = {
  submissions: [...submissions, ...ledger, ...waiting],
  turns: [...hookCases, ...turns],
  workflows: [...prompts, ...workflows],
  "intended differences": intended,
  "scheduled tasks": [...schedules, ...occurrences, ...intendedTasks],
};
for (const [area, scenarios] of Object.entries(areas)) compare(area, scenarios);

const cases = Object.values(areas).flatMap((scenarios) => scenarios.flatMap((one) => one.cases));

describe("the cases", () => {
  it("are at least 150, each with a name of its own", () => {
    const names = cases.map(({ shows }) => shows);
    expect(names.filter((name, at) => names.indexOf(name) !== at)).toEqual([]);
    expect(names.length).toBeGreaterThanOrEqual(150);
  });

  it("show each difference of the list, and no other", () => {
    const shown = new Set(cases.flatMap(({ differs }) => differs?.by ?? []));
    expect([...shown].sort()).toEqual(differences.map(({ name }) => name).sort());
  });
});
