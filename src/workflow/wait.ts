/**
 * How steps wait for something at their agent. `openWait()` asks for it, `waitForEnd()` waits for its event and asks the agent
 * now and then, `readLarge()` reads what is too large for an event. `passWait()` is all of it, for kinds whose waits have rows.
 */

import type { WorkflowStep } from "cloudflare:workers";
import { type Json, preview } from "../core/json.ts";
import { partName } from "../core/steps.ts";
import type { Part } from "../core/text.ts";
import { type NameOf, stepKey } from "./names.ts";
import { durably, plain, type StepCall } from "./step-call.ts";
import type { Closing, WaitReceipt, WaitRef, WaitStatus } from "./waits/protocol.ts";

export type WaitAsk = {
  readonly kind: string;
  readonly key: string | undefined;
  /** Defined by the kind. */
  readonly request: unknown;
  readonly timeoutMs: number;
  /** How an open wait is closed when the time is over; undefined where it is left open. */
  readonly closing: Closing | undefined;
  /** Set where it is asked for again, because the step refuses the result of an earlier wait. */
  readonly again?: {
    readonly round: number;
    readonly refuses: string;
    /** When the first wait was opened, epoch milliseconds: the timeout covers all rounds. */
    readonly startedAt: number;
  };
  /** Undoes what was done for the wait, which may still be open. */
  readonly rollback?: (waitId: string) => Promise<void>;
};

/** The agent's answer, and its time: a replay finds the same time. */
export type Timed<T> = T & { readonly at: number };

/** Names the platform's steps that a step consists of. */
export function namesOf({ name }: Pick<StepCall, "name">, { kind, key, again }: WaitAsk): NameOf {
  const identity = { kind, stepName: name, key };
  return (part) => partName(identity, again ? `repair-${again.round}-${part}` : part);
}

/** Opens a wait, or finds the one that was opened before. Null where the kind cannot ask again. */
export async function openWait<Receipt extends object = WaitReceipt>(
  call: StepCall,
  ask: WaitAsk,
  part: "submit" | "resubmit" = "submit",
): Promise<Timed<Receipt> | null> {
  const { kind, key, request, timeoutMs, again, rollback } = ask;
  const { step, agent, workflowName, workflowId, name } = call;
  const idempotencyKey = stepKey({ kind, workflowName, workflowId, stepName: name, key });
  const run = await call.run(kind);
  const workflow = { name: workflowName, id: workflowId, stepName: name };
  const open = async () => {
    const left = again ? timeoutMs - (Date.now() - again.startedAt) : timeoutMs;
    const asked = { kind, idempotencyKey, run, workflow, request, timeoutMs: Math.max(1, left) };
    const owner =
      call.starter && plain(await (await call.starter()).callKernel("ownerOfRun", workflow));
    const stub = await agent();
    const opening = stub.callKernel("openWait", {
      ...asked,
      ...(owner && { owner }),
      ...(again && { refuses: again.refuses }),
    });
    const receipt = plain(await opening) as Receipt | null;
    return receipt && { ...receipt, at: Date.now(), deployedAs: call.deployedAs };
  };
  const undo = async (receipt: Timed<Receipt> | null) => {
    if (receipt && "waitId" in receipt) await rollback?.(String(receipt.waitId));
  };
  return durably(step, namesOf(call, ask)(part), open, rollback && undo);
}

type WaitTime = Pick<WaitAsk, "timeoutMs" | "closing"> & {
  readonly again?: Pick<NonNullable<WaitAsk["again"]>, "startedAt"> | undefined;
};

type OpenedWait = WaitRef & {
  readonly eventType: string;
  readonly proof?: string | undefined;
  /** When the step began to wait, epoch milliseconds. */
  readonly at: number;
};

/** How a wait has ended: as its receipt says, or as {@link waitForEnd} finds. */
export async function endOfWait<End extends object>(
  call: StepCall,
  ask: WaitAsk,
  { end, ...opened }: Timed<WaitReceipt<End>>,
): Promise<End | null> {
  return end ?? waitForEnd(call, namesOf(call, ask), { kind: ask.kind, ...opened }, ask);
}

/**
 * Waits until a wait has ended, or closes it when the time is over.
 *
 * @param timeoutMs how long, from `wait.at` on, or from the beginning of the first wait where it is asked for again
 * @param endIn the end that an event reports
 * @returns null where the time is over, and there is no end
 */
export async function waitForEnd<End extends object>(
  { step, agent }: Pick<StepCall, "step" | "agent">,
  nameOf: NameOf,
  { at: startedAt, ...wait }: OpenedWait,
  { timeoutMs: allMs, closing, again }: WaitTime,
  endIn: (event: unknown) => End | Promise<End> = (event) => (event as { data: End }).data,
): Promise<End | null> {
  const { eventType: type, proof } = wait;
  const timeoutMs = again ? allMs - (startedAt - again.startedAt) : allMs;
  const ask = async (isOver: boolean) => {
    const stub = await agent();
    const end =
      isOver && closing
        ? stub.callKernel("closeWait", wait, closing)
        : stub.callKernel("checkWait", wait);
    return (await end) as End | null;
  };
  const found = await eventOrEnd(step, nameOf, { type, proof, timeoutMs, startedAt }, ask);
  return "end" in found ? found.end : endIn(found.event);
}

/** The large result of a wait, each part of it read in a step of its own, whose result can hold it. Undefined if it was deleted. */
export async function readLarge(
  { step, agent }: Pick<StepCall, "step" | "agent">,
  nameOf: NameOf,
  wait: WaitRef,
): Promise<Json | undefined> {
  const texts: string[] = [];
  for (let parts = 1; texts.length < parts; ) {
    const part = texts.length;
    const read = async () =>
      (await (await agent()).callKernel("readWait", wait, part)) as Part | null;
    const found = await durably(step, nameOf(`result-${part}`), read);
    if (!found) return undefined;
    texts.push(found.text);
    parts = found.parts;
  }
  return JSON.parse(texts.join("")) as Json;
}

/** How a wait with a row has ended. */
export type PassedWait = {
  /** When it was opened, epoch milliseconds: the same in every replay. */
  readonly askedAt: number;
  readonly waitId: string;
  readonly status: WaitStatus;
  readonly settledAt: number;
  readonly result: Json;
};

export async function openRow<Receipt extends WaitReceipt>(
  call: StepCall,
  ask: WaitAsk,
): Promise<Timed<Receipt>> {
  const receipt = await openWait<Receipt>(call, ask);
  if (receipt) return receipt;
  throw new Error(
    `The agent opened no wait for the step ${preview(call.name)}. Deploy both with one version of Perdure.`,
  );
}

/** Opens a wait that has a row, unless it was opened before, and waits for its end. */
export async function passWait(
  call: StepCall,
  ask: WaitAsk,
  opened?: Timed<WaitReceipt>,
): Promise<PassedWait> {
  const step = preview(call.name);
  const receipt = opened ?? (await openRow(call, ask));
  const { waitId, at: askedAt } = receipt;
  const end = await endOfWait(call, ask, receipt);
  if (!end) {
    throw new Error(
      `The agent has no end of the step ${step}: its wait ${waitId} was deleted, or belongs to a later run. Restart the workflow.`,
    );
  }
  if ("result" in end) return { ...end, askedAt };
  const { reference, ...rest } = end;
  const result = await readLarge(call, namesOf(call, ask), { kind: ask.kind, waitId });
  if (result !== undefined) return { ...rest, result, askedAt };
  throw new Error(
    `The result of ${reference.bytes} bytes of the step ${step} was deleted before all of it was read: ` +
      "its workflow was paused, or not retried, for 30 days. Restart the workflow.",
  );
}

/** The end of a wait, for a step that may ask again. */
type Answer = {
  readonly waitId: string;
  /** When it was opened, epoch milliseconds: the same in every replay. */
  readonly askedAt: number;
};

type Asking<End extends Answer, Taken> = {
  /** Opens the wait and waits for its end; null where the kind cannot ask again. */
  readonly pass: (ask: WaitAsk) => Promise<End | null>;
  /** @param refused the error of the take before, whose result only the schema refused */
  readonly take: (end: End, refused: unknown) => Promise<Taken>;
  /** Why only the step's schema refuses the end; undefined for another error. */
  readonly problemIn: (error: unknown, end: End) => string | undefined;
  /** Whether a later run asks again after this error. */
  readonly isRefusal: (error: unknown) => boolean;
  /** What the next wait asks. */
  readonly requestOf: (problem: string, end: End, error: unknown) => unknown;
  /** Maximum times that it is asked again. */
  readonly repairs: number;
};

/** Waits, and takes the end. One that only the step's schema refuses is asked for again within the same time. */
export async function askUntilTaken<End extends Answer, Taken>(
  call: StepCall,
  ask: WaitAsk,
  { pass, take, problemIn, isRefusal, requestOf, repairs }: Asking<End, Taken>,
): Promise<Taken> {
  const refused: string[] = [];
  let end = (await pass(ask)) as End;
  const { askedAt: startedAt } = end;
  let latest: unknown;
  for (let round = 1; ; round++) {
    try {
      return await take(end, latest);
    } catch (error) {
      latest = error;
      const { waitId: refuses } = end;
      const problem = problemIn(error, end);
      if (problem !== undefined) refused.push(refuses);
      const request = problem !== undefined && round <= repairs && requestOf(problem, end, error);
      const next = request
        ? await pass({ ...ask, request, again: { round, refuses, startedAt } })
        : null;
      if (!next) {
        if (isRefusal(error) && refused.length > 0)
          await refuseWait(call, namesOf(call, ask)("refuse"), ask.kind, refused);
        throw error;
      }
      end = next;
    }
  }
}

/** How often a step asks again for an approval or an arrival. */
const MAX_REFUSALS = 10;

/** A result that only the step's schema refuses. */
export type Refusal = Error & { readonly problem: string };

const isRefusal = (error: unknown): error is Refusal =>
  error instanceof Error && "problem" in error;

type Taking<Taken> = {
  /** @throws an error with a `problem` where the step's schema refuses the result */
  readonly take: (passed: PassedWait, refused: Refusal | undefined) => Promise<Taken>;
  /** What the next wait asks, where that is something else. */
  readonly requestOf?: (refusal: Refusal, waitId: string) => unknown;
  readonly opened?: Timed<WaitReceipt> | undefined;
};

/** {@link passWait}, and what the step makes of the result. */
export function takeWait<Taken>(
  call: StepCall,
  ask: WaitAsk,
  { take, requestOf, opened }: Taking<Taken>,
): Promise<Taken> {
  return askUntilTaken<PassedWait, Taken>(call, ask, {
    pass: (asked) => passWait(call, asked, asked === ask ? opened : undefined),
    take: (passed, refused) => take(passed, refused as Refusal | undefined),
    problemIn: (error, { status }) =>
      isRefusal(error) && status === "completed" ? error.problem : undefined,
    isRefusal,
    requestOf: (_, { waitId }, error) => requestOf?.(error as Refusal, waitId) ?? ask.request,
    repairs: MAX_REFUSALS,
  });
}

/** The step cannot take these results: a later run of the workflow asks again. */
export async function refuseWait(
  { step, agent }: Pick<StepCall, "step" | "agent">,
  name: string,
  kind: string,
  waitIds: readonly string[],
): Promise<void> {
  await durably(step, name, async () => (await agent()).callKernel("refuseWait", kind, waitIds));
}

/**
 * How long an event is waited for before the agent is asked how it stands; each time is ten times the one before. An
 * event can be lost to this run: a restart from the waiting step finds it spent by the run before.
 */
const FIRST_WAIT_MS = 10_000;
const WAIT_FACTOR = 10;

/** After so many events without proof the step sleeps and asks, and takes no more events: each takes a step of the instance. */
const MOST_UNPROVEN = 20;
const SLEEP_FACTOR = 2;

type EventWait = {
  readonly type: string;
  /** Known to the agent and to this workflow only. Without one, no event is believed. */
  readonly proof: string | undefined;
  readonly timeoutMs: number;
  /** When the wait began, epoch milliseconds: the same in every replay. */
  readonly startedAt: number | undefined;
};

/**
 * Waits for an event with proof, and asks the agent now and then: whatever of the two is there first.
 *
 * @param ask the end, or null when it has not ended; with `isOver` the last time, and then its result counts
 * @internal
 */
export async function eventOrEnd<End>(
  step: WorkflowStep,
  nameOf: NameOf,
  { type, proof, timeoutMs, startedAt }: EventWait,
  ask: (isOver: boolean) => Promise<End | null>,
): Promise<{ event: unknown } | { end: End | null }> {
  let left = timeoutMs;
  let length = FIRST_WAIT_MS;
  let unproven = 0;
  for (let round = 1; left > 0; round++) {
    const name = nameOf(round === 1 ? "wait" : `wait-${round}`);
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
    const end = await durably(step, nameOf(`check-${round}`), () => ask(false));
    if (end !== null) return { end };
  }
  return { end: await durably(step, nameOf("close"), () => ask(true)) };
}

/**
 * Whether the agent has sent it, and all of it is there: what is too large for an event comes as a reference, and the
 * agent is asked for the rest.
 */
function isProven(payload: unknown, proof: string | undefined): payload is { event: unknown } {
  if (typeof payload !== "object" || payload === null || proof === undefined) return false;
  return "event" in payload && "proof" in payload && payload.proof === proof;
}

/** An event and when it came, or undefined when the time was over. */
export async function eventOf(
  step: WorkflowStep,
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

/** A timeout is known by its name, or where an error lost that, by its message. */
function isTimeout(error: unknown): boolean {
  return (
    error instanceof Error &&
    (error.name === "WorkflowTimeoutError" || /timed out/i.test(error.message))
  );
}
