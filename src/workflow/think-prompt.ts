/**
 * Prompts that Think's own `step.prompt()` has submitted, in an instance that started before the app changed to Perdure.
 * Think's code in the agent still runs them, and sends their ends.
 */

import { digest } from "../core/text.ts";
import type { PromptEnd } from "../submissions/types.ts";
import { ThinkPromptTimeoutError } from "./errors.ts";
import { durably, type StepCall } from "./step-call.ts";
import { eventOf, namesOf, type Timed, type WaitAsk } from "./wait.ts";
import type { ThinkPromptReceipt } from "./waits/kinds/prompt.ts";

/** How long the event of an ended prompt is waited for. Think sends it at the end, and after a failure 2, 4, 8 and 16 s later. */
const EVENT_MS = 30_000;
/** After so many events that are not the prompt's, the step stops waiting: each takes a step of the instance. */
const MOST_EVENTS = 100;

type Step = Pick<StepCall, "workflowName" | "workflowId" | "name">;

export function thinkKeyOf({ workflowName, workflowId, name }: Step, key: string | undefined) {
  const base = `think-workflow:${workflowName}:${workflowId}:${name}`;
  return key === undefined ? base : `${base}:${digest(key, "utf8")}`;
}

function thinkEventType({ workflowName, workflowId, name }: Step, key = "") {
  return `think-prompt-${digest([workflowName, workflowId, name, key].join(":"), "utf8")}`;
}

/**
 * Waits for the end of Think's prompt.
 *
 * @param given what the agent has said of it, or from the log of the instance Think's own receipt, which has only the id
 * @returns null where it had ended, and this run has no event of it: an earlier run of a restarted workflow took that
 * @throws ThinkPromptTimeoutError when no event came in time, now or under Think
 */
export async function thinkPromptEnd(
  call: StepCall,
  ask: WaitAsk,
  given: Timed<Partial<ThinkPromptReceipt>>,
): Promise<PromptEnd | null> {
  const { step, agent } = call;
  const { timeoutMs, closing } = ask;
  const nameOf = namesOf(call, ask);
  const { submissionId = "", hasEnded } = given;
  const wait = { kind: "prompt", waitId: submissionId } as const;
  const check = async () =>
    (await agent()).callKernel("checkWait", wait) as Promise<PromptEnd | null>;
  const look = async () => ({ hasEnded: (await check()) !== null, at: Date.now() });
  const timedOut = new ThinkPromptTimeoutError(submissionId, undefined, timeoutMs);
  const isOwn = hasEnded === undefined;
  const found = isOwn ? await durably(step, nameOf("check-0"), look) : { ...given, hasEnded };
  const event = await thinkEvent(call, ask.key, submissionId, {
    startedAt: found.at,
    timeoutMs: found.hasEnded ? EVENT_MS : timeoutMs,
  });
  if (event) return event;
  if (!found.hasEnded) {
    const close = async () =>
      (closing
        ? (await agent()).callKernel("closeWait", wait, closing)
        : check()) as Promise<PromptEnd | null>;
    const end = await durably(step, nameOf("close"), close);
    if (end) return end;
    throw timedOut;
  }
  // A wait that had timed out under Think fails again at once in each replay.
  const at = await durably(step, nameOf("check-1"), async () => Date.now());
  if (at - found.at < EVENT_MS / 2) throw timedOut;
  return isOwn ? durably(step, nameOf("close"), check) : null;
}

/** Think's event, by the name of Think's wait, so that a replay finds what the instance has received already. */
async function thinkEvent(
  call: StepCall,
  key: string | undefined,
  submissionId: string,
  { startedAt, timeoutMs }: { startedAt: number; timeoutMs: number },
): Promise<PromptEnd | undefined> {
  const type = thinkEventType(call, key);
  let timeout = timeoutMs;
  for (let events = 0; events < MOST_EVENTS && timeout > 0; events++) {
    const came = await eventOf(call.step, `${call.name}:wait`, { type, timeout });
    if (!came) return undefined;
    if (isEnd(came.payload, submissionId)) return { ...came.payload, attempts: 1 };
    // Think received its events before this wait.
    timeout = Math.min(timeoutMs, startedAt + timeoutMs - came.at);
  }
  return undefined;
}

/** Think's events have no proof: any code with the Workflow's binding can send one, as before the change. */
function isEnd(
  payload: unknown,
  submissionId: string,
): payload is Omit<Exclude<PromptEnd, { reference: object }>, "attempts"> {
  if (typeof payload !== "object" || payload === null) return false;
  const { submissionId: id, status } = payload as { submissionId?: unknown; status?: unknown };
  return id === submissionId && typeof status === "string";
}
