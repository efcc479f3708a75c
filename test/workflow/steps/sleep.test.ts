/** `sleepUntilNext()` in the real engine. */

import { describe, expect, it, vi } from "vitest";
import { nextOccurrence, sleepUntilNext } from "../../../src/scheduler/index.ts";
import { until } from "../../support/given.ts";
import { givenScriptedWorkflow } from "../../support/workflows/scripted-workflow.ts";

const MONDAYS = "every monday at 09:00 in Europe/Paris";

describe("S2: sleepUntilNext()", () => {
  it("S2: sleeps to the next occurrence and returns it", async () => {
    await using workflow = await givenScriptedWorkflow(async (step) => [
      await sleepUntilNext(step, "weekly", MONDAYS),
    ]);
    await workflow.instance.modify((modifier) => modifier.disableSleeps());
    const expected = nextOccurrence(MONDAYS);
    await workflow.start();
    expect(await workflow.output()).toEqual([expected]);
  });

  it("S2: the workflow sleeps until the next occurrence", async () => {
    let hasAsked = false;
    await using workflow = await givenScriptedWorkflow((step) =>
      Promise.race([
        sleepUntilNext(step, "weekly", MONDAYS),
        until(() => hasAsked).then(() => "still asleep"),
      ]),
    );
    await workflow.start();
    await workflow.instance.waitForStepResult({ name: "weekly:sleep-next" });
    hasAsked = true;
    expect(await workflow.output()).toBe("still asleep");
  });

  it("sleeps longer than the platform's year in hops", async () => {
    const far = `once at ${new Date().getUTCFullYear() + 3}-06-01T09:00 in UTC` as string;
    await using workflow = await givenScriptedWorkflow(async (step) => [
      await sleepUntilNext(step, "far", far),
    ]);
    await workflow.instance.modify((modifier) => modifier.disableSleeps());
    await workflow.start();
    expect(await workflow.output()).toEqual([nextOccurrence(far)]);
  });

  it("a replay after the occurrence does not sleep", async () => {
    const at = "once at 2026-12-01T00:00 in UTC" as string;
    await using workflow = await givenScriptedWorkflow((step) => sleepUntilNext(step, "late", at));
    await workflow.instance.modify((modifier) =>
      modifier.mockStepResult({ name: "late:sleep-next" }, { from: 0, until: 1_000 }),
    );
    await workflow.start();
    expect(await workflow.output()).toBe(1_000);
  });

  it("S2: the workflow continues if the occurrence passes before the sleep starts, or is started again by a replay", async () => {
    const hour = 3_600_000;
    const early = Date.now() - 2 * hour;
    await using workflow = await givenScriptedWorkflow(async (step) => {
      // As in a run whose isolate went down right after the occurrence was told.
      vi.spyOn(Date, "now").mockReturnValueOnce(early);
      const [at] = await Promise.all([sleepUntilNext(step, "past", "every hour")]);
      return at;
    });
    await workflow.start();
    const at = Number(await workflow.output());
    expect(at).toBeLessThan(early + 2 * hour);
  });

  it("a schedule that is over returns null without a sleep", async () => {
    await using workflow = await givenScriptedWorkflow((step) =>
      sleepUntilNext(step, "over", "once at 2020-01-01T09:00 in UTC"),
    );
    await workflow.start();
    expect(await workflow.output()).toBeNull();
  });

  it("the options can have a zone, and keys in a loop", async () => {
    await using workflow = await givenScriptedWorkflow(async (step) => {
      const times: (number | null)[] = [];
      for (const key of ["a", "b"])
        times.push(
          await sleepUntilNext(step, "loop", "every day at 09:00", { timezone: "Asia/Tokyo", key }),
        );
      return times;
    });
    await workflow.instance.modify((modifier) => modifier.disableSleeps());
    const next = nextOccurrence("every day at 09:00 in Asia/Tokyo");
    await workflow.start();
    expect(await workflow.output()).toEqual([next, next]);
  });

  it.each([
    ["every mondey at 09:00 in Europe/Paris", "monday"],
    ["every monday at 09:00", "zone"],
  ])("invalid options are refused at once: %s", async (text, expected) => {
    await using workflow = await givenScriptedWorkflow((step) =>
      sleepUntilNext(step, "bad", text as string),
    );
    await workflow.start();
    const { message } = await workflow.error();
    expect(message).toContain('sleepUntilNext("bad"): ');
    expect(message).toContain(expected);
  });

  it("the compiler checks a literal schedule", async () => {
    await using workflow = await givenScriptedWorkflow((step) =>
      // @ts-expect-error There is no hour 25.
      sleepUntilNext(step, "bad", "every day at 25:00 in UTC"),
    );
    await workflow.start();
    expect((await workflow.error()).message).toContain("25:00");
  });

  it("a workflow of the platform's own class can sleep", async () => {
    const done: string[] = [];
    const step = {
      do: async (name: string, work: () => Promise<unknown>) => {
        done.push(name);
        return work();
      },
      sleep: async (name: string) => void done.push(name),
    };
    const at = await sleepUntilNext(step as never, "soon", "every hour");
    expect(at).toBeGreaterThan(Date.now());
    expect(done).toEqual(["soon:sleep-next", "soon:sleep-hop-0"]);
  });
});
