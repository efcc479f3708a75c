/** What steps make of values by the app's schemas, and which values they refuse. */

import { afterEach, expect, it, vi } from "vitest";
import { z } from "zod";
import { type AgentToolClass, STEPS } from "../../src/workflow/agent-tool.ts";
import { jsonFor, outputOf } from "../../src/workflow/options.ts";
import type { StepCall } from "../../src/workflow/step-call.ts";

afterEach(() => {
  vi.useRealTimers();
});

it("W2: a schema that never returns a result is a failure after 30 seconds", async () => {
  vi.useFakeTimers();
  const hanging = z.string().refine(() => new Promise<boolean>(() => {}));
  const output = outputOf(hanging, "a", (cause) => cause as Error).catch((error: Error) => error);
  await vi.advanceTimersByTimeAsync(29_000);
  expect(await Promise.race([output, "open"])).toBe("open");
  await vi.advanceTimersByTimeAsync(2_000);
  expect(await output).toMatchObject({
    message: "The schema has returned no result within 30 seconds",
  });
});

it.each([
  [{ at: { now: () => 1 } }, "input.at.now is a function"],
  [[1, undefined], "input[1] is undefined"],
  [{ at: new Date(0) }, "input.at is a Date"],
  [{ rate: Number.NaN }, "input.rate is NaN"],
])("W4: a step refuses a value that JSON would change: %#", (value, problem) => {
  const refuse = (message: string) => new Error(message);
  expect(() => jsonFor("input", value, 1_000, refuse as never)).toThrow(
    `Invalid input: ${problem}, which JSON cannot hold.`,
  );
});

class ToolChild {}

it.each([
  [ToolChild, undefined, "Invalid options undefined: expected an object with input"],
  [undefined, { input: "x" }, "Invalid child undefined: expected the child agent's class"],
])(
  "W4: step.agentTool() names what is wrong with its arguments: %#",
  async (child, options, problem) => {
    const agentTool = STEPS.agentTool((name) => ({ name }) as StepCall);
    const given = agentTool("tool", child as unknown as AgentToolClass, options as never);
    await expect(given).rejects.toThrow(`step.agentTool("tool"): ${problem}`);
  },
);
