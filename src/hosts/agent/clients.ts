/** Sends submissions, replies and approvals to the connected clients of an agent. */

import type { Agent, Connection } from "agents";
import type { UIMessageChunk } from "ai";
import type { Turn } from "../../submissions/host.ts";
import type { SubmissionInspection } from "../../submissions/types.ts";
import { MOST_REPLY, ReplyChunks } from "../../workflow/agent/reply-chunks.ts";
import type { ReplyWatcher, Watcher } from "../../workflow/agent/watchers.ts";
import type { Approval, ApprovalMessage } from "../../workflow/waits/kinds/approval-types.ts";

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

export type SubmissionAgent = Pick<Agent, "getConnections"> & {
  shouldSendSubmission(
    submission: SubmissionInspection,
    connection: Connection,
  ): SubmissionAudience;
};

export class SubmissionClients implements Watcher {
  /** Running submissions, as the app's hook sees them. */
  readonly running = new Map<string, SubmissionInspection>();

  /** @param isChosen whether the app chooses clients; nothing is done otherwise */
  constructor(
    readonly agent: SubmissionAgent,
    private readonly isChosen: () => boolean,
  ) {}

  status(submission: SubmissionInspection): void {
    if (!this.isChosen()) return;
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

  /** Undefined if no client may see it. */
  reply(turn: Pick<Turn, "submissionId" | "isGivenUp">, attempt: number): ReplyWatcher | undefined {
    return this.isChosen() ? streamTo(this, turn, attempt) : undefined;
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
        `[perdure] shouldSendSubmission() failed for submission ${submissionId} and client ${connection.id}:`,
        error,
      );
      return false;
    }
  }
}

/** The reply of one attempt. Clients that connect later get all that was sent before. */
function streamTo(
  clients: SubmissionClients,
  turn: Pick<Turn, "submissionId" | "isGivenUp">,
  attempt: number,
): ReplyWatcher {
  const { submissionId } = turn;
  /** Whether each client may see it. The app's hook is called once per client. */
  const audience = new WeakMap<Connection, boolean>();
  const reply = new ReplyChunks(submissionId, (part, from) => {
    const submission = clients.running.get(submissionId);
    // Another attempt has taken its place, or it has ended.
    if (turn.isGivenUp || !submission) return;
    const messageOf = (at: number, chunks: readonly UIMessageChunk[]) =>
      JSON.stringify({
        type: "perdure:reply",
        submissionId,
        thread: submission.thread,
        attempt,
        from: at,
        chunks,
        ...(reply.isCut && { isCut: true }),
      } satisfies ReplyMessage);
    const message = messageOf(from, part);
    let whole = from === 0 ? message : undefined;
    for (const connection of clients.agent.getConnections()) {
      const known = audience.get(connection);
      const isSeen = known ?? clients.audienceOf(submission, connection) === true;
      audience.set(connection, isSeen);
      if (!isSeen) continue;
      if (!known) whole ??= messageOf(0, reply.chunks);
      send(connection, (!known && whole) || message);
    }
  });
  return reply;
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
  if (message.length <= MOST_REPLY) return message;
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

export type ApprovalAgent = Pick<Agent, "broadcast" | "getConnections"> & {
  shouldSendApproval(approval: Approval, connection: Connection): boolean;
  onApproval(approval: Approval): void | Promise<void>;
};

/** An approval was opened, decided, expired or cancelled: sends it to the clients, and calls the app's hook. */
export function announceApproval(agent: ApprovalAgent, approval: Approval): void | Promise<void> {
  try {
    sendApproval(agent, approval);
  } catch (error) {
    console.error(`[perdure] approval ${approval.approvalId} could not be sent to clients:`, error);
  }
  return agent.onApproval(approval);
}

/** Clients that the app has chosen get all of the approval, the others its id, status and title. */
function sendApproval(agent: ApprovalAgent, approval: Approval): void {
  const { approvalId, status, title } = approval;
  const chosen: string[] = [];
  try {
    for (const connection of agent.getConnections()) {
      // A promise is not `true`.
      if (agent.shouldSendApproval(approval, connection) !== true) continue;
      chosen.push(connection.id);
      connection.send(messageOf(approval));
    }
  } finally {
    agent.broadcast(messageOf({ approvalId, status, title }), chosen);
  }
}

function messageOf(approval: ApprovalMessage["approval"]): string {
  return JSON.stringify({ type: "perdure:approval", approval } satisfies ApprovalMessage);
}
