/** What a step makes of what the agent throws, without an engine. */

import type { AgentWorkflowStep } from "agents/workflows";
import { describe, expect, it } from "vitest";
import { InvalidSubmissionError } from "../../src/submissions/errors.ts";
import { durably } from "../../src/workflow/step-call.ts";
import { InvalidWaitError } from "../../src/workflow/waits/errors.ts";

/** A step of the platform that runs its work once. */
const step = {
  do: (_name: string, _config: object, work: () => Promise<unknown>) => work(),
} as unknown as AgentWorkflowStep;

describe("a call of the agent", () => {
  it.each([new InvalidSubmissionError("thread", "no"), new InvalidWaitError("request", "no")])(
    "that is refused is final, and keeps its reason: %s",
    async (error) => {
      const call = durably(step, "s", async () => Promise.reject(error));
      await expect(call).rejects.toMatchObject({ message: expect.stringContaining("no") });
      await expect(call).rejects.not.toBe(error);
    },
  );

  it.each([
    'The RPC receiver does not implement the method "callKernel".',
    'Method "callKernel" not found on Triage.',
  ])("of an object that is no agent of Perdure is final, and says what to do: %s", async (text) => {
    const error = new TypeError(text);
    await expect(durably(step, "s", async () => Promise.reject(error))).rejects.toThrow(
      /callKernel.*has to extend a host of Perdure, e\.g\. DurableThink/,
    );
  });

  it.each([
    new DOMException("The object is in no state for it", "InvalidStateError"),
    new TypeError('onApproval(): The RPC receiver does not implement the method "callKernel".'),
    new Error('Method "callKernel" not found on Triage. Retried.'),
  ])(
    "is repeated after an error of the app or the platform, whatever that is called: %s",
    async (error) => {
      await expect(durably(step, "s", async () => Promise.reject(error))).rejects.toBe(error);
    },
  );
});
