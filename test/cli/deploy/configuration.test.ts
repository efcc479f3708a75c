/** What the configuration of the new code cannot take of open work. */

import { afterEach, expect, it } from "vitest";
import { newAgents } from "../../../src/cli/deploy/agents.ts";
import { checkConfiguration } from "../../../src/cli/deploy/configuration.ts";
import { newProject } from "../../../src/cli/deploy/project.ts";
import type { OpenItem } from "../../../src/features/deploy/index.ts";
import { project, removeProjects } from "../fixtures.ts";
import { agentWork, historyOf, itemOf, snapshotOf } from "./snapshots.ts";

afterEach(removeProjects);

const CONFIG = {
  ...{ name: "app", main: "src/index.ts" },
  durable_objects: { bindings: [{ name: "Desk", class_name: "Desk" }] },
  workflows: [{ name: "tickets", binding: "TICKETS", class_name: "Tickets" }],
  queues: { producers: [{ binding: "EVENTS", queue: "events" }] },
  migrations: [{ tag: "v1", new_sqlite_classes: ["Desk"] }] as object[],
};
const SOURCE = "export class Desk {}\nexport class Tickets {}\n";
const WORK: OpenItem[] = [
  itemOf("workflow", "w-1", [{ what: "workflow", name: "TICKETS" }]),
  itemOf("delivery", "d-1", [{ what: "binding", name: "EVENTS" }]),
];

/** What is found for an agent, by the problem and what it is about. */
function found(config: object, source = SOURCE, agent = "Desk", work: readonly OpenItem[] = WORK) {
  const folder = project({ "wrangler.jsonc": JSON.stringify(config), "src/index.ts": source });
  const code = newProject(folder, undefined);
  const params = { __agentName: "main", __agentBinding: "Desk" };
  const history = historyOf("TICKETS", "w-1", { params });
  const snapshot = snapshotOf([agentWork(agent, "main", work, [history])]);
  const { problems, notChecked } = checkConfiguration(code, newAgents(code), snapshot);
  return {
    problems: problems.map(({ problem, kind, id, severity }) =>
      [...(severity === "error" ? [] : [severity]), problem, kind, id].join(" "),
    ),
    texts: problems.map(({ text, remedy }) => `${text} ${remedy}`).join("\n"),
    notChecked: notChecked.map(({ why }) => why),
  };
}

it("finds nothing where all that open work needs is there", () => {
  expect(found(CONFIG)).toEqual({ problems: [], texts: "", notChecked: [] });
});

it("finds a Workflow whose name has changed, also for a run that has not recorded it", () => {
  const changed = { ...CONFIG, workflows: [{ ...CONFIG.workflows[0], name: "help-tickets" }] };
  const foundIn = (config: object, names: readonly (string | undefined)[]) => {
    const folder = project({ "wrangler.jsonc": JSON.stringify(config), "src/index.ts": SOURCE });
    const code = newProject(folder, undefined);
    const histories = names.map((deployedAs, nth) =>
      historyOf("TICKETS", `w-${nth}`, { params: {}, startedAt: nth, deployedAs }),
    );
    const work = histories.map(({ workflowId }) => itemOf("workflow", workflowId));
    const snapshot = snapshotOf([agentWork("Desk", "main", work, histories)]);
    return checkConfiguration(code, newAgents(code), snapshot).problems;
  };
  const names = [undefined, "tickets", undefined];
  expect(foundIn(CONFIG, names)).toEqual([]);
  const found = foundIn(changed, names);
  expect(found.map(({ problem, severity, id }) => `${severity} ${problem} ${id}`)).toEqual([
    "error workflow-renamed w-0",
    "error workflow-renamed w-1",
    "error workflow-renamed w-2",
  ]);
  expect(found[0]).toMatchObject({
    text: 'The Workflow TICKETS was named "tickets", and is "help-tickets" in wrangler.jsonc: the platform has its runs under the old name, so nothing reaches them.',
    remedy: expect.stringContaining('Keep "name": "tickets"'),
  });
  // Of a binding elsewhere, the name counts as well. Without a record nothing is known.
  const elsewhere = { ...changed, workflows: [{ ...changed.workflows[0], script_name: "other" }] };
  expect(foundIn(elsewhere, names)).toHaveLength(3);
  expect(foundIn(changed, [undefined])).toEqual([]);
});

it("finds a class that is no longer exported, and that of a Workflow", () => {
  expect(found(CONFIG, "export class Tickets {}").problems).toEqual(["class-gone class Desk"]);
  expect(found(CONFIG, "export class Desk {}").problems).toEqual(["class-gone workflow w-1"]);
});

it("finds a class that was renamed without a migration of its name, and takes one with it", () => {
  const bindings = { bindings: [{ name: "Desk", class_name: "HelpDesk" }] };
  const source = "export class HelpDesk {}\nexport class Tickets {}";
  const without = { ...CONFIG, durable_objects: bindings };
  const created = {
    ...without,
    migrations: [...CONFIG.migrations, { tag: "v2", new_sqlite_classes: ["HelpDesk"] }],
  };
  for (const config of [without, created]) {
    const { problems, texts } = found(config, source);
    expect(problems).toEqual(["class-renamed class HelpDesk"]);
    expect(texts).toContain('"renamed_classes": [{ "from": "Desk", "to": "HelpDesk" }]');
  }
  const renamed = { tag: "v2", renamed_classes: [{ from: "Desk", to: "HelpDesk" }] };
  const right = { ...without, migrations: [...CONFIG.migrations, renamed] };
  expect(found(right, source).problems).toEqual([]);
  const both = { bindings: [{ name: "HELP_DESK", class_name: "HelpDesk" }] };
  const named = `import { operator } from "perdure/operator";
operator({ agents: { HelpDesk: { namespace: (env) => env.HELP_DESK } } });\n${source}`;
  expect(found({ ...right, durable_objects: both }, named, "Desk", WORK.slice(1))).toMatchObject({
    ...{ problems: [], notChecked: [] },
  });
});

it("finds a class that a migration deletes with its open work", () => {
  const migrations = [...CONFIG.migrations, { tag: "v2", deleted_classes: ["Desk"] }];
  const gone = { ...CONFIG, durable_objects: { bindings: [] }, migrations };
  const { problems, texts } = found(gone, "export class Tickets {}");
  expect(problems).toEqual(["class-deleted class Desk", "binding-gone workflow w-1"]);
  expect(texts).toContain("Keep Desk until npx perdure drain says that nothing of it is open.");
  expect(found({ ...CONFIG, migrations }).problems).toEqual(["class-deleted class Desk"]);
});

it("warns of a class that a migration deletes while its binding leads to a new one", () => {
  const bindings = { bindings: [{ name: "Desk", class_name: "HelpDesk" }] };
  const replaced = { tag: "v2", deleted_classes: ["Desk"], new_sqlite_classes: ["HelpDesk"] };
  const migrations = [...CONFIG.migrations, replaced];
  const source = "export class HelpDesk {}\nexport class Tickets {}";
  const { problems, texts } = found({ ...CONFIG, durable_objects: bindings, migrations }, source);
  expect(problems).toEqual(["warning class-deleted class Desk"]);
  expect(texts).toContain("the binding Desk leads to HelpDesk, which starts empty");
  expect(texts).toContain('"renamed_classes": [{ "from": "Desk", "to": "HelpDesk" }]');
});

it("finds a class that no migration creates", () => {
  expect(found({ ...CONFIG, migrations: [] }).problems).toEqual(["migration-missing class Desk"]);
});

it("finds bindings that open work names and that are gone", () => {
  const { problems } = found({ ...CONFIG, queues: {}, workflows: [] });
  expect(problems).toEqual(["binding-gone workflow w-1", "binding-gone delivery d-1"]);
  const renamed = { bindings: [{ name: "DESK", class_name: "Desk" }] };
  // Workflows find their agent by its binding.
  expect(found({ ...CONFIG, durable_objects: renamed }).problems).toEqual([
    "binding-gone workflow w-1",
  ]);
});

it("finds the class of an agent by the options of operator(), whatever the agent's name is there", () => {
  const mounted = (agents: string) =>
    `import { operator } from "perdure/operator";\noperator({ agents: ${agents} });\n${SOURCE}`;
  const support = mounted("{ support: { namespace: (env) => env.Desk } }");
  expect(found(CONFIG, support, "support")).toMatchObject({ problems: [], notChecked: [] });
  const { problems } = found({ ...CONFIG, migrations: [] }, support, "support");
  expect(problems).toEqual(["migration-missing class Desk"]);
  const other = mounted("{ other: { namespace: (env) => env.Desk } }");
  expect(found(CONFIG, other, "support").problems).toEqual(["class-gone class support"]);
  // Another mount may name it.
  const open = `${other}\noperator({ agents: agentsOf() });`;
  expect(found(CONFIG, open, "support")).toMatchObject({
    problems: [],
    notChecked: [expect.stringContaining("its class was not found")],
  });
});

it("says where it does not know the class of an agent, and asks nothing of agents without open work", () => {
  expect(found(CONFIG, SOURCE, "support")).toMatchObject({
    problems: [],
    notChecked: [expect.stringContaining("its class was not found")],
  });
  expect(found(CONFIG, SOURCE, "support", [])).toMatchObject({ problems: [], notChecked: [] });
});

it("says which classes are those of another Worker", () => {
  const script_name = "other";
  const { problems, notChecked } = found({
    ...CONFIG,
    durable_objects: { bindings: [{ name: "Desk", class_name: "Desk", script_name }] },
    workflows: [{ name: "tickets", binding: "TICKETS", class_name: "Tickets", script_name }],
  });
  expect(problems).toEqual([]);
  expect(notChecked).toEqual([
    "its class is that of another Worker: check it there",
    "its Workflow TICKETS has no class in this Worker: check it in the one that has it",
  ]);
});
