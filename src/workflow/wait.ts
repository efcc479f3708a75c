/**
 * Waits for an event from the agent, and asks the agent now and then (W2).
 * Anyone with the Workflow's binding can send an event of any type, so an event
 * without the agent's proof is only a reason to ask the agent (W3).
 */

import type { AgentWorkflowStep } from "agents/workflows";
import { durably, plain } from "./step-call.ts";

/**
 * How long an event is waited for before the agent is asked how it stands; each time is ten times the one before. An
 * event can be lost to this run: a restart from the waiting step finds it spent by the run before.
 */
const FIRST_WAIT_MS = 10_000;
const WAIT_FACTOR = 10;

/** After so many events without proof the step sleeps and asks, and takes no more events: each takes a step of the instance. */
const MOST_UNPROVEN = 20;
const SLEEP_FACTOR = 2;

/** What a step waits for. */
export type EventWait = {
  /** The type of the event. */
  readonly type: string;
  /** Known to the agent and to this workflow only. Unset when an earlier version of the agent accepted the request. */
  readonly proof: string | undefined;
  readonly timeoutMs: number;
  /** When the wait began, epoch milliseconds: the same in every replay. */
  readonly startedAt: number | undefined;
};

/** Names the steps of the platform: the waits, and what asks between them. */
export type WaitNames = (
  part: `wait${"" | `-${number}`}` | `check-${number}` | "expire",
) => Promise<string>;

/** The result of a step, and when it ended: a replay finds the same time. */
export async function timed<T extends object>(work: Promise<T>): Promise<T & { at: number }> {
  return { ...plain(await work), at: Date.now() };
}

/**
 * Waits for an event with proof, and asks the agent now and then: whatever of the two is there first.
 *
 * @param ask how it stands, or null when it has not ended; the last time with `isOver`, and what it returns then stands
 */
export async function eventOrEnd<End>(
  step: AgentWorkflowStep,
  nameOf: WaitNames,
  { type, proof, timeoutMs, startedAt }: EventWait,
  ask: (isOver: boolean) => Promise<End | null>,
): Promise<{ event: unknown } | { end: End | null }> {
  let left = timeoutMs;
  let length = FIRST_WAIT_MS;
  let unproven = 0;
  for (let turn = 1; left > 0; turn++) {
    const name = await nameOf(turn === 1 ? "wait" : `wait-${turn}`);
    const timeout = Math.min(length, left);
    const isListening = unproven < MOST_UNPROVEN;
    const came = isListening ? await eventOf(step, name, { type, timeout }) : undefined;
    if (came && isProven(came.payload, proof)) return { event: came.payload.event };
    if (came) {
      unproven++;
      if (unproven === MOST_UNPROVEN) length = FIRST_WAIT_MS;
      // Unknown in a wait that began before an update: the event shortens nothing then.
      const passed = came.at - (startedAt ?? Number.NaN);
      if (Number.isFinite(passed)) left = Math.min(left, timeoutMs - passed);
    } else {
      if (!isListening) await step.sleep(name, timeout);
      left -= timeout;
      length *= isListening ? WAIT_FACTOR : SLEEP_FACTOR;
    }
    if (left <= 0) break;
    const end = await durably(step, await nameOf(`check-${turn}`), () => ask(false));
    if (end !== null) return { end };
  }
  return { end: await durably(step, await nameOf("expire"), () => ask(true)) };
}

/** {@link eventOrEnd} for an event that tells how it ended. */
export async function endTold<End>(
  ...wait: Parameters<typeof eventOrEnd<End>>
): Promise<End | null> {
  const found = await eventOrEnd<End>(...wait);
  return "end" in found ? found.end : (found.event as { readonly data: End }).data;
}

/**
 * Whether the agent has sent it, and all of it is there: what is too large for an event comes as a reference, and the
 * agent is asked for the rest (O4).
 */
function isProven(payload: unknown, proof: string | undefined): payload is { event: unknown } {
  if (typeof payload !== "object" || payload === null || proof === undefined) return false;
  return "event" in payload && "proof" in payload && payload.proof === proof;
}

/** An event and when it came, or undefined when the time was over. */
export async function eventOf(
  step: AgentWorkflowStep,
  name: string,
  wait: { type: string; timeout: number },
): Promise<{ payload: unknown; at: number } | undefined> {
  try {
    const { payload, timestamp } = await step.waitForEvent(name, wait);
    return { payload: plain(payload as unknown), at: new Date(timestamp).getTime() };
  } catch (error) {
    if (isTimeout(error)) return undefined;
    throw error;
  }
}

/** The platform tells a timeout by its name, or where an error lost that, by its message. */
function isTimeout(error: unknown): boolean {
  return (
    error instanceof Error &&
    (error.name === "WorkflowTimeoutError" || /timed out/i.test(error.message))
  );
}
