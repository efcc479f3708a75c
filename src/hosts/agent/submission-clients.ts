/**
 * Sends submissions to those connected clients that the app has chosen: each change of a status, and the reply of a side turn
 * while it is written. It stores nothing and never fails; no turn waits for it.
 */

import type { Agent, Connection } from "agents";
import type { UIMessageChunk } from "ai";
import type { SubmissionInspection, Turn } from "../../submissions/index.ts";
import { isFinalAnswer } from "../sdk/final-answer.ts";
import type { ReplyWatcher } from "../sdk/streamed-reply.ts";

/** Sent to clients for which `shouldSendSubmission()` returns `true` or `"status"`, after each change of a submission's status. */
export type SubmissionMessage = {
  readonly type: "perdure:submission";
  readonly submission: SubmissionInspection;
  /** Set if `output` and `metadata` are left out, because the submission is larger than 1 MiB. Ask the agent for it. */
  readonly isCut?: true;
};

/** Sent to clients for which it returns `true`, while a turn of a named thread, or an isolated one, writes its reply. */
export type ReplyMessage = {
  readonly type: "perdure:reply";
  readonly submissionId: string;
  readonly thread: string;
  /** Each attempt writes a reply of its own. */
  readonly attempt: number;
  /** How many chunks of this attempt came before these. With 0 the reply begins anew. */
  readonly from: number;
  /** As the AI SDK streams them: `readUIMessageStream()` of `ai` makes a message of them. */
  readonly chunks: readonly UIMessageChunk[];
  /** Set if no more chunks follow, because the reply is larger than 1 MiB. The end of the submission is still sent. */
  readonly isCut?: true;
};

export type SubmissionAudience = boolean | "status";

/** Characters of a message about a submission, and of the chunks of one reply. */
const MOST = 1_048_576;
/** How long chunks are gathered for one message, in milliseconds. */
const GATHER_MS = 100;

export type SubmissionAgent = Pick<Agent, "getConnections"> & {
  shouldSendSubmission(
    submission: SubmissionInspection,
    connection: Connection,
  ): SubmissionAudience;
};

export class SubmissionClients {
  /** Running submissions, as the app's hook sees them. */
  readonly running = new Map<string, SubmissionInspection>();

  /** @param unchosen the hook of an agent whose app chooses no clients: nothing is done for it */
  constructor(
    readonly agent: SubmissionAgent,
    private readonly unchosen: SubmissionAgent["shouldSendSubmission"],
  ) {}

  get #isChosen(): boolean {
    return this.agent.shouldSendSubmission !== this.unchosen;
  }

  status(submission: SubmissionInspection): void {
    if (!this.#isChosen) return;
    const { submissionId, status } = submission;
    if (status === "running") this.running.set(submissionId, submission);
    else this.running.delete(submissionId);
    harmless(`the status of submission ${submissionId}`, () => {
      let message: string | undefined;
      for (const connection of this.agent.getConnections()) {
        const audience = this.audienceOf(submission, connection);
        if (audience !== true && audience !== "status") continue;
        message ??= statusMessage(submission);
        send(connection, message);
      }
    });
  }

  /** A side turn begins to write its reply; undefined if no client may see it. */
  reply(turn: Pick<Turn, "submissionId" | "isGivenUp">, attempt: number): ReplyWatcher | undefined {
    return this.#isChosen ? new ReplyStream(this, turn, attempt) : undefined;
  }

  /** What the app's hook returns; nothing is sent if it throws, or returns something else, such as a promise. */
  audienceOf(submission: SubmissionInspection, connection: Connection): unknown {
    try {
      // A hook that changes what it is given changes nothing for the next connection.
      const { metadata } = submission;
      const copy = { ...submission, ...(metadata && { metadata: structuredClone(metadata) }) };
      return this.agent.shouldSendSubmission(copy, connection);
    } catch (error) {
      const { submissionId } = submission;
      console.error(
        `[perdure] shouldSendSubmission() failed for submission ${submissionId} and client ${connection.id}, which is sent nothing:`,
        error,
      );
      return false;
    }
  }
}

/** The reply of one attempt. Clients that connect later get all that was sent before. */
class ReplyStream implements ReplyWatcher {
  readonly #sent: UIMessageChunk[] = [];
  #unsent: UIMessageChunk[] = [];
  #size = 0;
  #isCut = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Whether each client may see it. The app's hook is called once per client. */
  readonly #audience = new WeakMap<Connection, boolean>();
  /** Calls of the final answer, whose result is the output. */
  readonly #hidden = new Set<string>();

  constructor(
    private readonly clients: SubmissionClients,
    private readonly turn: Pick<Turn, "submissionId" | "isGivenUp">,
    private readonly attempt: number,
  ) {}

  chunk(chunk: UIMessageChunk): void {
    if (this.#isCut || this.#isHidden(chunk)) return;
    try {
      this.#size += JSON.stringify(chunk).length;
    } catch {
      // It is not JSON, such as a tool's result that contains itself.
      return;
    }
    if (this.#size > MOST) this.#isCut = true;
    else this.#gather(chunk);
    this.#timer ??= setTimeout(() => this.end(), GATHER_MS);
  }

  end(): void {
    const { submissionId } = this.turn;
    harmless(`the reply of submission ${submissionId}`, () => this.#flush());
  }

  #isHidden(chunk: UIMessageChunk): boolean {
    if (!("toolCallId" in chunk)) return false;
    if ("toolName" in chunk && isFinalAnswer(chunk.toolName)) this.#hidden.add(chunk.toolCallId);
    return this.#hidden.has(chunk.toolCallId);
  }

  #gather(chunk: UIMessageChunk): void {
    const last = this.#unsent.at(-1);
    const isMore =
      (chunk.type === "text-delta" || chunk.type === "reasoning-delta") &&
      last?.type === chunk.type &&
      last.id === chunk.id;
    if (isMore)
      this.#unsent[this.#unsent.length - 1] = { ...last, delta: last.delta + chunk.delta };
    else this.#unsent.push(chunk);
  }

  #flush(): void {
    clearTimeout(this.#timer);
    const isDue = this.#timer !== undefined;
    this.#timer = undefined;
    const submission = this.clients.running.get(this.turn.submissionId);
    // Another attempt has taken its place, or it has ended.
    if (!isDue || this.turn.isGivenUp || !submission) return;
    const from = this.#sent.length;
    const unsent = this.#unsent;
    this.#unsent = [];
    this.#sent.push(...unsent);
    const part = this.#message(submission, from, unsent);
    let whole = from === 0 ? part : undefined;
    for (const connection of this.clients.agent.getConnections()) {
      const known = this.#audience.get(connection);
      const isSeen = known ?? this.clients.audienceOf(submission, connection) === true;
      this.#audience.set(connection, isSeen);
      if (!isSeen) continue;
      if (!known) whole ??= this.#message(submission, 0, this.#sent);
      send(connection, (!known && whole) || part);
    }
  }

  #message(
    { submissionId, thread }: SubmissionInspection,
    from: number,
    chunks: readonly UIMessageChunk[],
  ): string {
    const { attempt } = this;
    const message = { type: "perdure:reply", submissionId, thread, attempt, from, chunks } as const;
    return JSON.stringify({
      ...message,
      ...(this.#isCut && { isCut: true }),
    } satisfies ReplyMessage);
  }
}

/** An error here must not end the turn. */
function harmless(what: string, work: () => void): void {
  try {
    work();
  } catch (error) {
    console.error(`[perdure] clients were not sent ${what}:`, error);
  }
}

function statusMessage(submission: SubmissionInspection): string {
  const type = "perdure:submission";
  const message = JSON.stringify({ type, submission } satisfies SubmissionMessage);
  if (message.length <= MOST) return message;
  const { output: _output, metadata: _metadata, ...rest } = submission;
  return JSON.stringify({ type, submission: rest, isCut: true });
}

/** The platform buffers messages for a slow client. */
function send(connection: Connection, message: string): void {
  try {
    connection.send(message);
  } catch {
    // It is closing.
  }
}
