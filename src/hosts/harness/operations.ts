/** A turn as an operation of a harness's session: its id, its input, and whether an earlier attempt has left one. */

import type {
  AgentHarness,
  HarnessInput,
  HarnessSession,
  InputPart,
  OperationResult,
  SessionEvent,
  SessionState,
} from "agents/experimental/channels";
import { toUIMessage, toUIMessageChunk } from "agents/harness/ai-sdk";
import type { UIMessage, UIMessageChunk } from "ai";
import { transientOf } from "../../core/failures.ts";
import {
  type AttemptPlan,
  isIsolated,
  MAIN,
  type SubmittedTurn,
  type Turn,
} from "../../kernel/submissions/internal.ts";
import { jsonInstructions } from "../sdk/final-answer.ts";

const SESSION = "perdure:";
/** How long an aborted operation may take to end, in milliseconds. ThinkHarness waits for a tool that does not stop. */
export const SETTLE_MS = 5_000;

/** The session of a turn: the harness's own for the main conversation, one for each thread, and one for each isolated turn. */
export function sessionOf(
  harness: AgentHarness,
  { thread, submissionId }: Pick<SubmittedTurn, "thread" | "submissionId">,
): HarnessSession {
  if (isIsolated(thread)) return harness.session(`${SESSION}isolated/${submissionId}`);
  return sessionOfThread(harness, thread);
}

export function sessionOfThread(harness: AgentHarness, thread: string): HarnessSession {
  return thread === MAIN ? harness.session() : harness.session(`${SESSION}thread/${thread}`);
}

/** The id of the operation of a submission: the submission's own, with a suffix where the harness has failed before. */
function operationIdOf(submissionId: string, run: number): string {
  return run === 1 ? submissionId : `${submissionId}/perdure-run-${run}`;
}

/** The submission of an operation. */
export function submissionOfOperation(operationId: string): string {
  return operationId.replace(/\/perdure-run-\d+$/, "");
}

/** The session as it is now. */
export async function stateOf(session: HarnessSession): Promise<SessionState> {
  const watch = await session.watch();
  await watch.stop();
  return watch.state;
}

/** The message that a run of the submission continues: what a crash has left of its reply. */
export function leftReply(
  submissionId: string,
  { messages, pending: [first] }: SessionState,
): UIMessage | undefined {
  const last = messages.at(-1);
  const isPlaced =
    first?.status === "placed" && submissionOfOperation(first.operationId) === submissionId;
  return isPlaced && last?.role === "assistant" ? toUIMessage(last) : undefined;
}

function isOpen({ pending }: SessionState, operationId: string): boolean {
  return pending.some((operation) => operation.operationId === operationId);
}

/** The latest operation of a submission, or undefined if the harness has none. */
export async function latestOperation(
  session: HarnessSession,
  submissionId: string,
): Promise<string | undefined> {
  const state = await stateOf(session);
  let latest: string | undefined;
  for (let run = 1; ; run++) {
    const id = operationIdOf(submissionId, run);
    if (isOpen(state, id)) return id;
    // An operation that is not open has an end, or is unknown.
    if (isUnknown(await session.wait(id))) return latest;
    latest = id;
  }
}

/**
 * Submits the operation of an attempt and waits for its end. An operation that an earlier attempt has left is taken over. Another
 * one is made only where it had failed before this attempt, for a reason that may pass.
 */
export async function operate(
  session: HarnessSession,
  turn: Pick<Turn, "submissionId" | "messages" | "isAgain" | "plan" | "signal">,
  before: SessionState,
): Promise<OperationResult> {
  for (let run = 1; ; run++) {
    const operationId = operationIdOf(turn.submissionId, run);
    const { accepted } = await session.submit(inputOf(turn), { operationId });
    const result = await endOfOperation(session, operationId, turn.signal);
    if (accepted || turn.signal.aborted || !mayRunAgain(result)) return result;
    // Its failure is that of this attempt. An abort is that of an earlier one, which had stalled.
    if (isOpen(before, operationId) && !isAborted(result)) return result;
  }
}

/** Waits for the end of an operation. Aborting `signal` aborts it; one that goes on for its tool is left after {@link SETTLE_MS}. */
export async function endOfOperation(
  session: HarnessSession,
  operationId: string,
  signal: AbortSignal,
): Promise<OperationResult> {
  const { promise: left, resolve } = Promise.withResolvers<OperationResult>();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const abort = () => {
    abortOperation(session, operationId);
    const result = { operationId, session: session.id, status: "unanswered", reason: "aborted" };
    timer = setTimeout(() => resolve(result as OperationResult), SETTLE_MS);
  };
  signal.addEventListener("abort", abort, { once: true });
  if (signal.aborted) abort();
  try {
    return await Promise.race([session.wait(operationId), left]);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", abort);
  }
}

/** Aborts an operation. Never fails: the end of its submission is stored already. */
export function abortOperation(session: HarnessSession, operationId: string): void {
  session.abort(operationId).catch((error) => {
    console.error(`[perdure] operation ${operationId} could not be aborted:`, error);
  });
}

/** Whether the app or the ledger has aborted the operation. */
export function isAborted(result: OperationResult): boolean {
  return result.status === "unanswered" && ["aborted", "withdrawn"].includes(result.reason ?? "");
}

function isUnknown(result: OperationResult): boolean {
  return result.status === "unanswered" && result.reason === "not_found";
}

/** Whether an operation of an earlier attempt was aborted, because it had stalled, or has failed for a reason that may pass. */
function mayRunAgain(result: OperationResult): boolean {
  if (result.status === "done") return false;
  return isAborted(result) || transientOf(result.reason, 0) !== undefined;
}

export function inputOf({
  messages: [message],
  isAgain,
  plan,
}: Pick<Turn, "messages"> & Partial<Pick<Turn, "isAgain" | "plan">>): HarnessInput {
  const asked = plan?.schema && jsonInstructions(plan.schema);
  return {
    parts: [
      ...(message ? partsOf(message) : []),
      ...(asked ? [{ type: "text", text: asked } as const] : []),
    ],
    // A message that is in the session stays where it is. The model answers what comes last.
    ...(message && !isAgain && { messageId: message.id }),
  };
}

/** The parts of a message that a harness takes: texts and files. */
function partsOf({ parts }: UIMessage): InputPart[] {
  return parts.flatMap((part): InputPart[] => {
    if (part.type === "text") return [{ type: "text", text: part.text }];
    if (part.type !== "file") return [];
    const { mediaType, url, filename } = part;
    return [{ type: "file", mediaType, url, ...(filename !== undefined && { filename }) }];
  });
}

/** Whether a harness takes these messages: one of the user, of texts and files. */
export function isInput(messages: readonly UIMessage[]): boolean {
  const [message] = messages;
  if (messages.length !== 1 || message?.role !== "user") return false;
  return message.parts.every(({ type }) => type === "text" || type === "file");
}

/** How an answer with a schema is asked for: a harness has no place for a tool of the ledger's. */
export function planOf(plan: AttemptPlan): AttemptPlan {
  return plan.how === "tool" ? { ...plan, how: "json", takesText: false } : plan;
}

/** Passes on what the model says in the operations of a submission. The session may run others before them. */
export function chunksOf(
  submissionId: string,
  { run }: SessionState,
  take: (chunk: UIMessageChunk) => void,
): (events: readonly SessionEvent[]) => void {
  const isOf = (operations: readonly string[]) =>
    operations.some((id) => submissionOfOperation(id) === submissionId);
  let isOwn = run !== undefined && isOf(run.operations);
  // The run may have begun before the session was watched.
  if (isOwn) for (const chunk of run?.partial ?? []) take(toUIMessageChunk(chunk));
  return (events) => {
    for (const event of events) {
      if (event.type === "run-start") isOwn = isOf(event.operations);
      else if (event.type === "chunk" && isOwn) take(toUIMessageChunk(event.chunk));
    }
  };
}
