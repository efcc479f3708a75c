/** `step.race()` in the real engine: the winner of a race is the same in each replay, whatever has ended meanwhile. */

import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { capabilitiesOf } from "../../../src/hosts/public.ts";
import { ask } from "../../../src/testing/index.ts";
import type { ThinkWorkflowStep } from "../../../src/workflow/index.ts";
import { pauseAndResume } from "../../support/engine.ts";
import { until } from "../../support/given.ts";
import {
  givenScriptedWorkflow,
  type WorkflowBody,
} from "../../support/workflows/scripted-workflow.ts";

type Given = Awaited<ReturnType<typeof givenScriptedWorkflow>>;

async function approve({ agent }: Given, title: string): Promise<void> {
  const { approvals } = capabilitiesOf(agent);
  const open = async () => (await approvals.list()).items.find((one) => one.title === title);
  const { approvalId } = await until(open);
  await approvals.grant(approvalId, { by: "ada" });
}

const untilSent = ({ agent }: Given) =>
  until(async () => (await capabilitiesOf(agent).outbox.stats()).waiting === 0);

/** Replays the run at an event that it waits for after the race. */
async function replayed(given: Given, runs: readonly unknown[]): Promise<void> {
  const before = runs.length;
  await untilSent(given);
  await pauseAndResume(env.SCRIPTED_WORKFLOW, given.id);
  await until(() => runs.length > before);
  await (await given.handle()).sendEvent({ type: "go", payload: null });
}

const untilGo = (step: ThinkWorkflowStep) =>
  step.waitForEvent("go", { type: "go", timeout: "1 hour" });

describe("W1: the winner is the same in a replay", () => {
  it("of two approvals, of which the loser is granted later and is first in the list", async () => {
    const wins: unknown[] = [];
    await using given = await givenScriptedWorkflow(async (step) => {
      const { winner, value } = await step.race("first", {
        ann: step.approval("ann", { title: "ann" }),
        bob: step.approval("bob", { title: "bob" }),
      });
      wins.push([winner, value.approved]);
      await untilGo(step);
      return winner;
    });
    await given.start();
    await approve(given, "bob");
    await until(() => wins.length === 1);
    await approve(given, "ann");
    await replayed(given, wins);
    expect(await given.output()).toBe("bob");
    expect(wins).toEqual([
      ["bob", true],
      ["bob", true],
    ]);
  });

  it("of a prompt, against a sleep that is over in the replay", async () => {
    const wins: string[] = [];
    await using given = await givenScriptedWorkflow(async (step) => {
      const prompt = ask({ id: given.id, text: "in time" });
      const race = await step.race("first", {
        late: step.sleep("limit", 1_500).then(() => "over"),
        answer: step.prompt("ask", { prompt, thread: "isolated" }),
      });
      wins.push(race.value);
      await untilGo(step);
      return race.winner;
    });
    await given.start();
    await until(() => wins.length === 1);
    await new Promise((resolve) => setTimeout(resolve, 2_000));
    await replayed(given, wins);
    expect(await given.output()).toBe("answer");
    expect(wins).toEqual(["in time", "in time"]);
  });

  it("of a step of the platform that fails", async () => {
    const wins: string[] = [];
    const never = { retries: { limit: 0, delay: 1 } };
    await using given = await givenScriptedWorkflow(async (step) => {
      const fails = step.do("fails", never, async () => {
        throw new Error("no stock");
      });
      const message = await step
        .race("first", { ann: step.approval("ann", { title: "ann" }), fails })
        .then(
          ({ winner }) => winner,
          (error: Error) => error.message,
        );
      wins.push(message);
      await untilGo(step);
      return message;
    });
    await given.start();
    await until(() => wins.length === 1);
    await approve(given, "ann");
    await replayed(given, wins);
    expect(await given.output()).toBe("no stock");
    expect(wins).toEqual(["no stock", "no stock"]);
  });

  it("with until: fulfilled, of the first that succeeds, and in a loop", async () => {
    const wins: string[] = [];
    await using given = await givenScriptedWorkflow(async (step) => {
      for (const key of ["one", "two"]) {
        const fails = step.do(`fails ${key}`, { retries: { limit: 0, delay: 1 } }, async () => {
          throw new Error("no stock");
        });
        const branches = { fails, works: step.do(`works ${key}`, async () => key) };
        const { winner } = await step.race("first", branches, { until: "fulfilled", key });
        wins.push(winner);
      }
      await untilGo(step);
      return wins.length;
    });
    await given.start();
    await until(() => wins.length === 2);
    await replayed(given, wins);
    await given.output();
    expect(wins).toEqual(["works", "works", "works", "works"]);
  });
});

const INVALID: [string, WorkflowBody, RegExp][] = [
  ["no branch", (step) => step.race("first", {}), /got 0 branches; expected .* 1 to 100 steps/],
  ["a list", (step) => step.race("first", [] as never), /got \[\]; expected an object/],
  [
    "a branch that has not started",
    (step) => step.race("first", { late: (() => step.sleep("late", 1)) as never }),
    /the branch "late" is .*; expected the promise of a step/,
  ],
  [
    "another option",
    (step) => step.race("first", { nap: step.sleep("nap", 1) }, { until: "any" as never }),
    /Invalid until "any": expected "settled" or "fulfilled"/,
  ],
  [
    "a name twice",
    async (step) => {
      await step.race("first", { one: step.sleep("one", 1) });
      return step.race("first", { two: step.sleep("two", 1) });
    },
    /step\.race\("first"\) was used before in this run.*pass a different `key`/,
  ],
];

it.each(INVALID)("refuses %s, with the remedy", async (_, body, message) => {
  await using given = await givenScriptedWorkflow(body);
  await given.start();
  const error = await given.error();
  expect(error.message).toMatch(message);
  expect(error.message).toContain("InvalidRaceError");
});

it("W1: fails where the code has lost the branch that has won, and names those that are left", async () => {
  let wins = 0;
  await using given = await givenScriptedWorkflow(async (step) => {
    await step.race("first", { [wins === 0 ? "old" : "new"]: step.sleep("nap", 1) });
    wins++;
    await untilGo(step);
  });
  await given.start();
  await until(() => wins === 1);
  await pauseAndResume(env.SCRIPTED_WORKFLOW, given.id);
  expect((await given.error()).message).toMatch(
    /won by "old", which is not among "new"\. .*restart the run/,
  );
});
