/** Replays of runs whose steps returned what JSON does not have: dates, maps, bytes. */

import type { AgentWorkflowEvent } from "agents/workflows";
import { describe, expect, it } from "vitest";
import type { WorkflowHistory } from "../../../src/features/deploy/types.ts";
import { replayWorkflow } from "../../../src/testing/index.ts";
import { ThinkWorkflow, type ThinkWorkflowStep } from "../../../src/workflow/index.ts";
import { historyAt, problemsOf } from "../../support/workflows/histories.ts";
import {
  givenScriptedWorkflow,
  type WorkflowBody,
} from "../../support/workflows/scripted-workflow.ts";

/** The history of a run of that code, once it waits for the event "answer". */
async function givenRun(body: WorkflowBody): Promise<WorkflowHistory> {
  await using workflow = await givenScriptedWorkflow(body);
  await workflow.start();
  // As check gets it.
  const history = await historyAt(workflow.agent, workflow.id, "answer");
  return JSON.parse(JSON.stringify(history));
}

const wait = (step: ThinkWorkflowStep) => step.waitForEvent("answer", { type: "answer" });
const AT = "2026-03-01T12:00:00.000Z";

describe("a step that returned", () => {
  it.each<[string, () => unknown, (value: never) => unknown]>([
    ["a Date", () => new Date(AT), (value: Date) => value.getUTCFullYear()],
    ["a text of a date", () => AT, (value: string) => value.slice(0, 10)],
    [
      "dates and texts of dates",
      () => [new Date(AT), AT],
      ([at, text]: [Date, string]) => `${at.getTime()} ${text.length}`,
    ],
    [
      "a Map",
      () => new Map([["a", { n: 1 }]]),
      (value: Map<string, { n: number }>) => value.get("a")?.n,
    ],
    ["a Set", () => new Set(["a"]), (value: Set<string>) => value.has("a")],
    [
      "bytes",
      () => new Uint8Array([1, 2, 250]),
      (value: Uint8Array) => `${value.length} ${value.at(-1)}`,
    ],
    ["a buffer", () => new Uint8Array([1, 2]).buffer, (value: ArrayBuffer) => value.byteLength],
    ["a bigint", () => 2n ** 70n, (value: bigint) => (value / 3n).toString()],
    [
      "NaN and -0",
      () => [Number.NaN, -0],
      ([nan, zero]: [number, number]) => `${Number.isNaN(nan)} ${Object.is(zero, -0)}`,
    ],
    ["undefined in a list", () => [undefined, null], ([a, b]: unknown[]) => `${a} ${b}`],
    [
      "an error",
      () => new RangeError("too far"),
      (value: Error) => `${value.message} ${value instanceof Error}`,
    ],
    ["a regular expression", () => /a+/gi, (value: RegExp) => value.test("AA")],
    [
      "a Map in a list in an object",
      () => ({ all: [new Map([[1, new Date(AT)]])] }),
      ({ all }: { all: Map<number, Date>[] }) => all[0]?.get(1)?.getTime(),
    ],
    [
      "one object at two places",
      () => [{ n: 1 }].flatMap((one) => [one, one]),
      ([a, b]: [object, object]) => a === b,
    ],
    [
      "an object that looks like a recorded type",
      () => ({ "perdure:type": "Date", value: AT }),
      (value: { value: string }) => value.value.slice(0, 4),
    ],
  ])("%s is replayed with it: no problem with the same code", async (_, make, use) => {
    const body: WorkflowBody = async (step) => {
      const value = await step.do("load", async () => make() as never);
      await step.do(`use ${use(value)}`, async () => 1);
      await wait(step);
    };
    expect(await problemsOf(body, await givenRun(body))).toEqual([]);
  });

  it("a Date, and code that takes it for a text, fails after the deploy: an error", async () => {
    const old: WorkflowBody = async (step) => {
      await step.do("load", async () => ({ due: new Date(AT) }) as never);
      await wait(step);
    };
    const edited: WorkflowBody = async (step) => {
      const { due } = await step.do("load", async () => ({ due: AT }));
      await step.do(`remind ${due.slice(0, 10)}`, async () => 1);
      await wait(step);
    };
    expect(await problemsOf(edited, await givenRun(old))).toEqual(["error would-fail: run()"]);
  });

  it("a text, and code that takes it for a Date, fails after the deploy: an error", async () => {
    const old: WorkflowBody = async (step) => {
      await step.do("load", async () => ({ due: AT }));
      await wait(step);
    };
    const edited: WorkflowBody = async (step) => {
      const { due } = await step.do(
        "load",
        async () => ({ due: new Date(AT) }) as never as { due: Date },
      );
      if (due.getTime() > 0) await wait(step);
    };
    expect(await problemsOf(edited, await givenRun(old))).toEqual(["error would-fail: run()"]);
  });

  it("a Map that decides, and a step behind it with another name: an error", async () => {
    const body =
      (name: string): WorkflowBody =>
      async (step) => {
        const decisions = (await step.do(
          "decide",
          async () => new Map([["refund", "rejected"]]) as never,
        )) as Map<string, string>;
        if (decisions.get("refund") === "rejected") await step.do(name, async () => "told");
        else await step.do("pay", async () => "paid");
        await wait(step);
      };
    const history = await givenRun(body("tell"));
    expect(await problemsOf(body("tell"), history)).toEqual([]);
    expect(await problemsOf(body("inform"), history)).toEqual(["error renamed-or-removed: tell"]);
  });

  it("something that no history can hold: not replayed, also where the replay throws another error", async () => {
    const old: WorkflowBody = async (step) => {
      await step.do("load", async () => 1);
      await wait(step);
    };
    const history = await givenRun(old);
    const [load, ...rest] = history.platform;
    const lost = { ...load, output: { "perdure:type": "other", value: "ReadableStream" } };
    const given = { ...history, platform: [lost, ...rest] } as WorkflowHistory;
    const edited: WorkflowBody = async (step) => {
      const rows = (await step.do("load", async () => [] as never)) as { count: number };
      if (!(rows.count > 0)) throw new RangeError("no rows");
      await wait(step);
    };
    expect(await problemsOf(edited, given)).toEqual(["warning not-replayed: run()"]);
    expect(await problemsOf(old, given)).toEqual([]);
  });
});

it("params with a Date and a Map are those of the run", async () => {
  const history = await givenRun(wait);
  const params = {
    ...(history.params as object),
    taskParams: {
      due: { "perdure:type": "Date", value: AT },
      names: { "perdure:type": "Map", value: [["a", 1]] },
    },
  };
  class Reads extends ThinkWorkflow {
    override async run({ payload }: AgentWorkflowEvent<unknown>, step: ThinkWorkflowStep) {
      const { taskParams } = payload as { taskParams: { due: Date; names: Map<string, number> } };
      const { due, names } = taskParams;
      if (due.getTime() !== Date.parse(AT) || names.get("a") !== 1) throw new Error("other params");
      await wait(step);
    }
  }
  const { problems } = await replayWorkflow(Reads, { ...history, params });
  expect(problems).toEqual([]);
});
