/**
 * Tells connected clients of submissions: each change of a status, and the reply of a turn beside the conversation while it
 * is written. Only those that the app has chosen. It stores nothing, never fails, and nobody waits for it.
 */

import type { Connection } from "agents";
import type { UIMessageChunk } from "ai";
import type { SubmissionInspection, Turn } from "../../submissions/index.ts";
import { isFinalAnswer } from "../sdk/final-answer.ts";
import type { ReplyWatcher } from "../sdk/sdk-turns.ts";

/** What clients that `shouldSendSubmission()` chooses are sent after each change of a submission's status. */
export type SubmissionMessage = {
  readonly type: "perdure:submission";
  readonly submission: SubmissionInspection;
  /** Set if `output` and `metadata` are left out, because the submission is larger than 1 MiB. Ask the agent for it. */
  readonly isCut?: true;
};

/** What those for which it returns `true` are sent while a turn of a named thread, or an isolated one, writes its reply. */
export type ReplyMessage = {
  readonly type: "perdure:reply";
  readonly submissionId: string;
  readonly thread: string;
  /** Another attempt writes another reply. */
  readonly attempt: number;
  /** How many chunks of this attempt came before these. With 0 the reply begins anew. */
  readonly from: number;
  /** As the AI SDK streams them: `readUIMessageStream()` of `ai` makes a message of them. */
  readonly chunks: readonly UIMessageChunk[];
  /** Set if no more is streamed, because the reply is larger than 1 MiB. The end of the submission comes all the same. */
  readonly isCut?: true;
};

/** What the app decides of a client. */
export type SubmissionAudience = boolean | "status";

/** Characters of a message about a submission, and of the chunks of one reply. */
const MOST = 1_048_576;
/** How long chunks are gathered for one message, in milliseconds. */
const GATHER_MS = 100;

export type ClientsPort = {
  readonly getConnections: () => Iterable<Connection>;
  /** The app's choice; undefined where the app makes none, and nobody is told. */
  readonly choice: () =>
    | ((submission: SubmissionInspection, connection: Connection) => SubmissionAudience)
    | undefined;
};

export class SubmissionClients {
  /** Those that run, as the app's choice is to see them. */
  readonly #running = new Map<string, SubmissionInspection>();

  constructor(private readonly port: ClientsPort) {}

  /** A submission has changed its status. */
  status(submission: SubmissionInspection): void {
    if (!this.port.choice()) return;
    const { submissionId, status } = submission;
    if (status === "running") this.#running.set(submissionId, submission);
    else this.#running.delete(submissionId);
    harmless(`the status of submission ${submissionId}`, () => {
      let message: string | undefined;
      for (const connection of this.port.getConnections()) {
        const audience = this.audienceOf(submission, connection);
        if (audience !== true && audience !== "status") continue;
        message ??= statusMessage(submission);
        send(connection, message);
      }
    });
  }

  /** A turn beside the conversation begins to write its reply; undefined where nobody is to see it. */
  reply(turn: Pick<Turn, "submissionId" | "isGivenUp">, attempt: number): ReplyWatcher | undefined {
    return this.port.choice() && new ReplyStream(this, turn, attempt);
  }

  running(submissionId: string): SubmissionInspection | undefined {
    return this.#running.get(submissionId);
  }

  connections(): Iterable<Connection> {
    return this.port.getConnections();
  }

  /** What the app says; nothing is sent where it throws, or returns something else, such as a promise. */
  audienceOf(submission: SubmissionInspection, connection: Connection): unknown {
    try {
      // A hook that changes what it is given changes nothing for the next connection.
      const { metadata } = submission;
      const copy = { ...submission, ...(metadata && { metadata: structuredClone(metadata) }) };
      return this.port.choice()?.(copy, connection);
    } catch (error) {
      const { submissionId } = submission;
      console.error(
        `[perdure] shouldSendSubmission() failed for submission ${submissionId} and client ${connection.id}, which is told nothing:`,
        error,
      );
      return false;
    }
  }
}

/** The reply of one attempt. Clients that come later get what was said so far. */
class ReplyStream implements ReplyWatcher {
  readonly #sent: UIMessageChunk[] = [];
  #unsent: UIMessageChunk[] = [];
  #size = 0;
  #isCut = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Whether each client is to see it. Asked once. */
  readonly #seers = new WeakMap<Connection, boolean>();
  /** Calls of the final answer, whose result is the output. */
  readonly #hidden = new Set<string>();

  constructor(
    private readonly clients: SubmissionClients,
    private readonly turn: Pick<Turn, "submissionId" | "isGivenUp">,
    private readonly attempt: number,
  ) {}

  chunk(chunk: UIMessageChunk): void {
    if (this.#isCut || this.#isHidden(chunk)) return;
    const size = sizeOf(chunk);
    if (size === undefined) return;
    this.#size += size;
    if (this.#size > MOST) this.#isCut = true;
    else this.#gather(chunk);
    this.#timer ??= setTimeout(() => this.end(), GATHER_MS);
  }

  /** What has been gathered is sent. */
  end(): void {
    const { submissionId } = this.turn;
    harmless(`the reply of submission ${submissionId}`, () => this.#flush());
  }

  #isHidden(chunk: UIMessageChunk): boolean {
    if (!("toolCallId" in chunk)) return false;
    if ("toolName" in chunk && isFinalAnswer(chunk.toolName)) this.#hidden.add(chunk.toolCallId);
    return this.#hidden.has(chunk.toolCallId);
  }

  /** Pieces of one text become one. */
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
    const submission = this.clients.running(this.turn.submissionId);
    // Another attempt has taken its place, or it has ended.
    if (!isDue || this.turn.isGivenUp || !submission) return;
    const from = this.#sent.length;
    const unsent = this.#unsent;
    this.#unsent = [];
    this.#sent.push(...unsent);
    const part = this.#message(submission, from, unsent);
    let whole = from === 0 ? part : undefined;
    for (const connection of this.clients.connections()) {
      const isNew = !this.#seers.has(connection);
      if (isNew) {
        this.#seers.set(connection, this.clients.audienceOf(submission, connection) === true);
      }
      if (!this.#seers.get(connection)) continue;
      if (isNew) whole ??= this.#message(submission, 0, this.#sent);
      send(connection, isNew && whole !== undefined ? whole : part);
    }
  }

  #message(
    { submissionId, thread }: SubmissionInspection,
    from: number,
    chunks: readonly UIMessageChunk[],
  ): string {
    return JSON.stringify({
      type: "perdure:reply",
      submissionId,
      thread,
      attempt: this.attempt,
      from,
      chunks,
      ...(this.#isCut && { isCut: true }),
    } satisfies ReplyMessage);
  }
}

/** Characters of a chunk as JSON; undefined for one that is none, such as a result of a tool that contains itself. */
function sizeOf(chunk: UIMessageChunk): number | undefined {
  try {
    return JSON.stringify(chunk).length;
  } catch {
    return undefined;
  }
}

/** The turn goes on whatever happens here. */
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

/** A client that has gone is told nothing. The platform keeps what a slow one has not taken. */
function send(connection: Connection, message: string): void {
  try {
    connection.send(message);
  } catch {
    // It is closing: it has no more to hear.
  }
}
