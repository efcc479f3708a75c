/** What `check` makes of the answers of the running new code. */

import { expect, it, vi } from "vitest";
import { NoAnswerError } from "../../../src/cli/deploy/new-code.ts";
import { askRunning } from "../../../src/cli/deploy/running.ts";
import type { Replay, WorkflowHistory } from "../../../src/features/deploy/index.ts";
import { agentWork, historyOf, itemOf } from "./snapshots.ts";

const FINE: Replay = { problems: [], replayed: [], at: "waits" };
const begun = (version: string | null) => ({
  ...({
    name: "perdure:version",
    count: 1,
    kind: "do",
    status: "completed",
    startedAt: 1,
  } as const),
  output: { version, changes: ["tax"] },
});

it("replays a run as the version that continues it, also after a migration", async () => {
  const asked: WorkflowHistory[] = [];
  const histories = [
    historyOf("TICKETS", "migrated", { version: "6", platform: [begun("6")] }),
    historyOf("TICKETS", "as-begun", { version: "7", platform: [begun("7")] }),
    // Its class has no versions: that of the item is its agent's.
    historyOf("TICKETS", "plain", { version: null, platform: [] }),
  ];
  const agent = agentWork(
    "Desk",
    "main",
    histories.map(({ workflowId }) => itemOf("workflow", workflowId)),
    histories,
  );
  const code = {
    replay: async (history: WorkflowHistory) => {
      asked.push(history);
      return FINE;
    },
    lacks: async () => [],
  };
  const questions = {
    histories: histories.map((history) => ({ agent, history })),
    classes: new Map(),
  };
  expect(await askRunning(code, questions)).toMatchObject({ problems: [], histories: 3 });
  expect(asked).toEqual([
    { ...histories[0], version: "7", platform: [begun("7")] },
    histories[1],
    histories[2],
  ]);
});

it("says which histories are not complete, and goes on after one that has no answer", async () => {
  const histories = [
    historyOf("TICKETS", "cut", { isCut: "the platform has not answered in time" }),
    historyOf("TICKETS", "silent"),
    historyOf("TICKETS", "fine"),
  ];
  const agent = agentWork("Desk", "main", [], histories);
  const found = await askRunning(
    {
      replay: async ({ workflowId }) => {
        if (workflowId === "silent") throw new NoAnswerError("no answer within 30 seconds");
        return FINE;
      },
      lacks: async () => {
        throw new NoAnswerError(
          "Error: FeatureNotInstalledError: deployments.lacks needs deployments().",
        );
      },
    },
    {
      histories: histories.map((history) => ({ agent, history })),
      classes: new Map([["Desk", { className: "Desk", agents: [agent], needed: [] }]]),
    },
  );
  // Each run has a version, which continues it.
  expect(found.problems.map(({ problem, severity, id }) => [problem, severity, id])).toEqual([
    ["feature-gone", "error", "cut"],
    ["feature-gone", "error", "silent"],
    ["feature-gone", "error", "fine"],
  ]);
  expect(found).toMatchObject({ histories: 2, classes: 0 });
  expect(found.notChecked.map(({ id, why }) => [id, why])).toEqual([
    [undefined, expect.stringContaining("deployments.lacks needs deployments().")],
    ["cut", "its history is not complete: the platform has not answered in time"],
    ["silent", "it was not replayed: no answer within 30 seconds"],
  ]);
});

it("a run that stops the local runtime is an error, and the runs after it are not checked", async () => {
  const histories = [historyOf("TICKETS", "endless"), historyOf("TICKETS", "next")];
  const agent = agentWork("Desk", "main", [], histories);
  let isGone = false;
  const found = await askRunning(
    {
      replay: async () => {
        if (isGone) throw new NoAnswerError("the local runtime stopped answering before");
        isGone = true;
        throw new NoAnswerError("no answer within 30 seconds", { hangs: true });
      },
      lacks: async () => [],
    },
    { histories: histories.map((history) => ({ agent, history })), classes: new Map() },
  );
  expect(found.problems).toMatchObject([{ problem: "hangs", severity: "error", id: "endless" }]);
  expect(found.notChecked).toMatchObject([{ id: "next" }]);
});

it("a class that does not start is an error of all of its agents", async () => {
  const agents = ["a", "b"].map((name) => agentWork("Desk", name, [itemOf("run", "r")]));
  const ask = (why: string) =>
    askRunning(
      {
        replay: async () => FINE,
        lacks: async (_, needs) => {
          expect(needs).toEqual([]);
          throw new NoAnswerError(why, { isAnswer: true });
        },
      },
      {
        histories: [],
        classes: new Map([["Desk", { className: "HelpDesk", agents, needed: [] }]]),
      },
    );
  const broken = await ask(
    "Error: FeatureNotInstalledError: getScheduledTasks() needs schedules().",
  );
  expect(broken.problems).toMatchObject([
    { agent: "Desk", name: "a", kind: "class", id: "HelpDesk", problem: "class-fails" },
    { agent: "Desk", name: "b", severity: "error" },
  ]);
  expect(broken.notChecked).toHaveLength(1);
  const alsoHere = await ask("Error: Set OPENAI_API_KEY.");
  expect(alsoHere.problems).toMatchObject([
    { problem: "class-fails", remedy: expect.stringContaining(".dev.vars") },
    { problem: "class-fails" },
  ]);
});

it("asks for each need once, in parts, and names each item that needs what is gone", async () => {
  const calls: number[] = [];
  const agent = agentWork("Desk", "main", []);
  const needed = Array.from({ length: 1_200 }, (_, nth) => ({
    ...{ agent, item: itemOf("delivery", `d-${nth}`) },
    need: { what: "method", name: `on${nth % 600}` } as const,
  }));
  const found = await askRunning(
    {
      replay: async () => FINE,
      lacks: async (_, needs) => {
        calls.push(needs.length);
        return needs.filter(({ name }) => name === "on7");
      },
    },
    { histories: [], classes: new Map([["Desk", { className: "Desk", agents: [agent], needed }]]) },
  );
  expect(calls).toEqual([500, 100]);
  expect(found.problems.map(({ id, problem }) => `${problem} ${id}`)).toEqual([
    "method-gone d-7",
    "method-gone d-607",
  ]);
});

it("a task without an open run may be removed, and one with an open run says how its removal ends", async () => {
  const needs = [{ what: "task", name: "digest" }] as const;
  const agent = agentWork("Desk", "main", [
    { ...itemOf("task", "digest"), needs },
    { ...itemOf("run", "digest/1"), needs },
  ]);
  const needed = agent.work.map((item) => ({ agent, item, need: needs[0] }));
  const { problems } = await askRunning(
    { replay: async () => FINE, lacks: async (_, asked) => [...asked] },
    { histories: [], classes: new Map([["Desk", { className: "Desk", agents: [agent], needed }]]) },
  );
  expect(problems).toMatchObject([
    { kind: "task", problem: "task-gone", severity: "warning" },
    { kind: "run", problem: "task-gone", severity: "error" },
  ]);
  expect(problems[0]?.text).toContain("the deploy pauses it");
  expect(problems[1]?.remedy).toMatch(/pause-task stops new ones.*remove-task/);
});

it("says how far it has come, and replays no further run after its time", async () => {
  const notes = vi.spyOn(process.stderr, "write").mockReturnValue(true);
  const histories = Array.from({ length: 1_500 }, (_, nth) => historyOf("TICKETS", `w-${nth}`));
  const agent = agentWork("Desk", "main", [], histories);
  const questions = {
    histories: histories.map((history) => ({ agent, history })),
    classes: new Map(),
  };
  let replays = 0;
  const code = {
    replay: async () => {
      // Those after it are late.
      if (++replays === 1_000) await new Promise((resolve) => setTimeout(resolve, 400));
      return FINE;
    },
    lacks: async () => [],
  };
  try {
    const found = await askRunning(code, questions, { replaysMs: 300, progressMs: 0 });
    expect(found.histories).toBe(1_000);
    expect(found.notChecked).toHaveLength(500);
    expect(found.notChecked.at(-1)).toMatchObject({
      ...{ id: "w-1499", why: "it was not replayed: the replays of older runs took 0.005 minutes" },
    });
    expect(notes.mock.calls.flat()).toContain("700 of 1500 runs replayed...\n");
  } finally {
    notes.mockRestore();
  }
});
