/**
 * Prompts that Think's own `step.prompt()` has submitted, in an instance that started before the app changed to Perdure.
 * Think's code in the agent still runs them and sends their ends. What the workflow knows of Think's form is in this file.
 */

import { digest } from "../../core/text.ts";
import type { PromptEnd, ThinkPromptReceipt } from "../../submissions/types.ts";
import type { InstanceIdentity, StepPart } from "../names.ts";
import { durably, type StepCall } from "../step-call.ts";
import { eventOf, timed } from "../wait.ts";
import { ThinkPromptTimeoutError } from "./errors.ts";

/** How long the event of an ended prompt is waited for. Think sends it at the end, and after a failure 2, 4, 8 and 16 s later. */
const EVENT_MS = 30_000;
/** After so many events that are not the prompt's, the step waits no longer: each takes a step of the instance. */
const MOST_EVENTS = 100;

type Identity = Omit<InstanceIdentity, "kind">;

interface Agent {
  expirePrompt(submissionId: string, options: { cancel: boolean }): Promise<PromptEnd | null>;
}

/** A prompt of Think's that a step waits for. */
export type ThinkPrompt = {
  readonly submissionId: string;
  readonly nameOf: (part: StepPart) => Promise<string>;
  readonly identity: Identity;
  readonly timeoutMs: number;
  readonly cancelOnTimeout: boolean;
};

/** The key of Think's submission. */
export async function thinkKeyOf({ workflowName, workflowId, stepName, key }: Identity) {
  const base = `think-workflow:${workflowName}:${workflowId}:${stepName}`;
  return key === undefined ? base : `${base}:${digest(key, "utf8")}`;
}

/** The type of the event that tells of its end. */
async function thinkEventType({ workflowName, workflowId, stepName, key }: Identity) {
  return `think-prompt-${digest([workflowName, workflowId, stepName, key ?? ""].join(":"), "utf8")}`;
}

/**
 * Waits for the end of Think's prompt.
 *
 * @param receipt what the agent has said of it; unset where the receipt is Think's own, from the log of the instance
 * @returns null where it had ended, and this run has no event of it: an earlier run of a restarted workflow took that
 * @throws ThinkPromptTimeoutError when no event came in time, now or under Think
 */
export async function thinkPromptEnd(
  { step, agent }: Pick<StepCall<Agent>, "step" | "agent">,
  prompt: ThinkPrompt,
  receipt: (ThinkPromptReceipt & { at: number }) | undefined,
): Promise<PromptEnd | null> {
  const { submissionId, nameOf, timeoutMs, cancelOnTimeout } = prompt;
  const ask = async (cancel: boolean) => (await agent()).expirePrompt(submissionId, { cancel });
  const look = async () => timed(ask(false).then((end) => ({ hasEnded: end !== null })));
  const found = receipt ?? (await durably(step, await nameOf("check-0"), look));
  const event = await thinkEvent(step, prompt, {
    startedAt: found.at,
    timeoutMs: found.hasEnded ? EVENT_MS : timeoutMs,
  });
  if (event) return event;
  if (!found.hasEnded) {
    const end = await durably(step, await nameOf("expire"), () => ask(cancelOnTimeout));
    if (end) return end;
    throw new ThinkPromptTimeoutError(submissionId, undefined, timeoutMs);
  }
  // A wait that had timed out under Think fails again at once in each replay.
  const at = await durably(step, await nameOf("check-1"), async () => Date.now());
  if (at - found.at < EVENT_MS / 2)
    throw new ThinkPromptTimeoutError(submissionId, undefined, timeoutMs);
  return receipt ? null : durably(step, await nameOf("expire"), () => ask(false));
}

/** Think's event, by the name of Think's wait, so that a replay finds what the instance has received already. */
async function thinkEvent(
  step: StepCall<Agent>["step"],
  { submissionId, identity }: ThinkPrompt,
  { startedAt, timeoutMs }: { startedAt: number; timeoutMs: number },
): Promise<PromptEnd | undefined> {
  const type = await thinkEventType(identity);
  let timeout = timeoutMs;
  for (let events = 0; events < MOST_EVENTS && timeout > 0; events++) {
    const came = await eventOf(step, `${identity.stepName}:wait`, { type, timeout });
    if (!came) return undefined;
    if (isEnd(came.payload, submissionId)) return { ...came.payload, attempts: 1 };
    // What came under Think was before this wait.
    timeout = Math.min(timeoutMs, startedAt + timeoutMs - came.at);
  }
  return undefined;
}

/** Think's events have no proof: whoever can send events to the workflow can send this one, as before the change. */
function isEnd(
  payload: unknown,
  submissionId: string,
): payload is Omit<Exclude<PromptEnd, { reference: object }>, "attempts"> {
  if (typeof payload !== "object" || payload === null) return false;
  const { submissionId: id, status } = payload as { submissionId?: unknown; status?: unknown };
  return id === submissionId && typeof status === "string";
}
