/**
 * A step that waits for something at the agent which is no turn: asks for it,
 * waits for its event, and when the time is over asks how it stands (W2). What
 * it waits for is up to the step that it is part of.
 */

import { type Json, preview } from "../../core/json.ts";
import type {
  Closing,
  WaitEnd,
  WaitKindName,
  WaitReceipt,
  WaitRequest,
  WaitStatus,
} from "../../waits/types.ts";
import { partName, stepKey } from "../names.ts";
import { durably, inParts, type StepCall } from "../step-call.ts";
import { endTold, timed, type WaitNames } from "../wait.ts";

/** What an agent offers to steps that wait for something else than a turn. */
export interface WaitingAgent {
  openWait(request: WaitRequest): Promise<WaitReceipt>;
  expireWait(waitId: string, closing: Closing | null): Promise<WaitEnd | null>;
  readWait(waitId: string, part: number): Promise<{ text: string; parts: number } | null>;
  refuseWait(waitId: string): Promise<void>;
}

/** What a step waits for. */
export type WaitAsk = {
  readonly kind: WaitKindName;
  readonly key: string | undefined;
  readonly request: Json;
  readonly timeoutMs: number;
  /** How the wait is closed when the time is over. */
  readonly closing: Closing;
  /** Set where it is asked for again, because the step refuses the result of an earlier wait. */
  readonly again?: { readonly round: number; readonly refuses: string };
  /** Undoes what was done for the wait, which may be open still. */
  readonly rollback?: (waitId: string) => Promise<void>;
};

/** How it ended, whole. */
export type PassedWait = {
  /** When it was asked for, epoch milliseconds: the same in every replay. */
  readonly askedAt: number;
  readonly waitId: string;
  readonly status: WaitStatus;
  /** Epoch milliseconds. */
  readonly settledAt: number;
  readonly result: Json;
};

/** Waits until the wait is closed, or closes it when the time is over. */
export async function passWait(call: StepCall<WaitingAgent>, ask: WaitAsk): Promise<PassedWait> {
  const { kind, key, request, timeoutMs, rollback, again } = ask;
  const { step, agent, workflowName, workflowId, name } = call;
  const identity = { kind, stepName: name, key };
  const workflow = { name: workflowName, id: workflowId, stepName: name };
  const asked = {
    kind,
    idempotencyKey: await stepKey({ workflowName, workflowId, ...identity }),
    run: await call.run(),
    workflow,
    request,
    timeoutMs,
    ...(again && { refuses: again.refuses }),
  };
  const nameOf: NameOf = (part) =>
    partName(identity, again ? `repair-${again.round}-${part}` : part);
  const receipt = await durably(
    step,
    await nameOf("ask"),
    async () => timed((await agent()).openWait(asked)),
    rollback && (({ waitId }) => rollback(waitId)),
  );
  const end = receipt.end ?? (await waitForEnd(call, nameOf, receipt, ask));
  return { ...(await whole(call, nameOf, end)), askedAt: receipt.at };
}

type NameOf = (part: "ask" | Parameters<WaitNames>[0] | `result-${number}`) => Promise<string>;

/** Says that the result is not what the step can take: a restart of the workflow asks afresh (W1). */
export async function refuseWait(
  { step, agent, name }: StepCall<WaitingAgent>,
  { kind, key }: Pick<WaitAsk, "kind" | "key">,
  waitId: string,
): Promise<void> {
  const part = await partName({ kind, stepName: name, key }, "refuse");
  await durably(step, part, async () => (await agent()).refuseWait(waitId));
}

async function waitForEnd(
  { step, agent, name }: StepCall<WaitingAgent>,
  nameOf: WaitNames,
  { waitId, eventType, proof, at }: WaitReceipt & { at: number },
  { timeoutMs, closing }: WaitAsk,
): Promise<WaitEnd> {
  const ask = async (isOver: boolean) =>
    (await agent()).expireWait(waitId, isOver ? closing : null);
  const wait = { type: eventType, proof, timeoutMs, startedAt: at };
  const end = await endTold<WaitEnd>(step, nameOf, wait, ask);
  if (end) return end;
  throw new Error(`The agent did not say how the step ${preview(name)} ended`);
}

async function whole(
  { step, agent, name }: StepCall<WaitingAgent>,
  nameOf: NameOf,
  end: WaitEnd,
): Promise<Omit<PassedWait, "askedAt">> {
  if (!("reference" in end)) return end;
  const { waitId, status, settledAt, reference } = end;
  const text = await inParts(
    step,
    (part) => nameOf(`result-${part}`),
    async (part) => (await agent()).readWait(waitId, part),
  );
  if (text !== undefined) return { waitId, status, settledAt, result: JSON.parse(text) as Json };
  throw new Error(
    `The result of ${reference.bytes} bytes of the step ${preview(name)} was forgotten before all of it was read: ` +
      "its workflow was paused, or was not retried, for 30 days. Restart the workflow.",
  );
}
