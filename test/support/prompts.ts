/** Prompts and batches of prompts, as their steps ask for them. */

import type { PromptRequest } from "../../src/workflow/waits/kinds/prompt.ts";
import type { WaitRequest } from "../../src/workflow/waits/protocol.ts";

/** A prompt of a run of a workflow, in one object. */
export type AskedPrompt = PromptRequest &
  Pick<WaitRequest, "idempotencyKey" | "run" | "workflow" | "refuses">;

/** The same, as its step asks the agent. */
export function asWait({
  idempotencyKey,
  run,
  workflow,
  ...request
}: AskedPrompt): WaitRequest<PromptRequest> {
  return { kind: "prompt", idempotencyKey, run, workflow, timeoutMs: 86_400_000, request };
}

/** Has an agent accept a prompt. Returns the id of its submission. */
export async function acceptPrompt(
  agent: { callKernel(name: "openWait", request: WaitRequest): unknown },
  asked: AskedPrompt,
): Promise<string> {
  return ((await agent.callKernel("openWait", asWait(asked))) as { waitId: string }).waitId;
}
