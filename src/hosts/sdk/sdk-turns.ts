/**
 * Runs turns beside the agent's own conversation, by the AI SDK: in a named
 * thread, which keeps them, or isolated, where nothing is kept. For the hosts,
 * which run the turns of the agent's own conversation themselves.
 */

import type { Sessions } from "agents/sessions";
import { convertToModelMessages, type UIMessage, type UIMessageChunk } from "ai";
import { isReset } from "../../core/failures.ts";
import {
  type ConversationState,
  isIsolated,
  type SubmittedTurn,
  type Turn,
  type TurnEnd,
  type TurnLedger,
  TurnRefused,
} from "../../submissions/host.ts";
import { textOf } from "./answer-text.ts";
import { Attempt } from "./attempt.ts";
import { continued, isPartial, isProviderResult, keptOf, replyIdOf } from "./reply.ts";
import { streamedReply } from "./streamed-reply.ts";
import { Threads } from "./threads.ts";
import type { TurnSource } from "./turn-source.ts";

/** What a host lends to its turns beside the conversation. */
export type SdkPort = {
  readonly source: TurnSource;
  /** Where named threads are kept. */
  readonly sessions: Sessions;
  readonly ledger: () => TurnLedger;
  /** Messages of a named thread that are kept; without it all are. */
  readonly maxThreadMessages?: () => number;
  /** Who watches a reply while it is written, if anybody does. */
  readonly watch?: (turn: Turn, attempt: number) => ReplyWatcher | undefined;
};

/** Sees the reply of one attempt while it is written. It must not throw, and nobody waits for it. */
export interface ReplyWatcher {
  chunk(chunk: UIMessageChunk): void;
  /** No more comes. */
  end(): void;
}

export class SdkTurns {
  /** The named threads, for whoever wants to read or clear one. */
  readonly threads: Threads;

  constructor(private readonly port: SdkPort) {
    this.threads = new Threads(port.sessions, port.maxThreadMessages);
  }

  /**
   * Runs a turn to its end.
   *
   * @throws TurnRefused when the submission is not to be run any more, and what
   *   the platform throws when it takes the isolate down
   */
  async run(turn: Turn): Promise<TurnEnd> {
    const { thread } = turn;
    const ref = turn.begin();
    await turn.announced();
    const attempt = new Attempt(turn, ref, this.port.ledger(), async (messages) => {
      if (!isIsolated(thread)) await this.threads.append(thread, messages);
    });
    const watcher = this.port.watch?.(turn, ref.attempt);
    const reply = await this.#reply(attempt, watcher).catch((cause: unknown) => {
      attempt.failed(cause);
      return undefined;
    });
    watcher?.end();
    if (isReset(attempt.cause)) throw attempt.cause;
    const end = attempt.end(reply);
    if (isIsolated(thread)) return end;
    const kept = await this.#keptOf(attempt, reply, end);
    if (!kept) return end;
    if (turn.isGivenUp) throw new TurnRefused();
    await this.threads.reply(thread, kept);
    return "finishReason" in end ? { ...end, messageId: kept.id } : end;
  }

  /** What of the reply is kept: that of an earlier attempt stays at its beginning, where this one goes on from it. */
  async #keptOf(
    { turn, isFollowUp }: Attempt,
    reply: UIMessage | undefined,
    end: TurnEnd,
  ): Promise<UIMessage | undefined> {
    const id = replyIdOf(turn.submissionId);
    const isCut = end.outcome !== "completed";
    if (!isFollowUp) return reply && keptOf({ ...reply, id }, isCut);
    // What is cut off is no part of it: it is asked for again.
    if (end.outcome === "error" && !end.answer) return undefined;
    const earlier = await this.threads.replyOf(turn.thread, id);
    return continued(earlier, reply && keptOf({ ...reply, id }, isCut), isCut);
  }

  /** What a turn has left in its thread; nothing ever in an isolated one. */
  async inspectConversation({
    submissionId,
    thread,
    messages,
  }: SubmittedTurn): Promise<ConversationState> {
    if (isIsolated(thread)) return { applied: "none", hasEffects: false };
    const ids = new Set(messages.map(({ id }) => id));
    const { size } = await this.threads.has(thread, [...ids]);
    const reply = await this.threads.replyOf(thread, replyIdOf(submissionId));
    return {
      applied: size === 0 ? "none" : size === ids.size ? "all" : "partial",
      hasEffects: reply?.parts.some(isProviderResult) ?? false,
      ...(reply && !isPartial(reply) && { messageId: reply.id, text: textOf(reply) }),
    };
  }

  /** Takes the turn's messages and the replies to them out of its thread. Done twice, it is as done once. */
  async removeMessages({ submissionId, thread, messages }: SubmittedTurn): Promise<void> {
    if (isIsolated(thread)) return;
    const ids = messages.map(({ id }) => id);
    await this.threads.removeMessages(thread, ids, replyIdOf(submissionId));
  }

  async #reply(
    attempt: Attempt,
    watcher: ReplyWatcher | undefined,
  ): Promise<UIMessage | undefined> {
    const { turn } = attempt;
    const { thread, signal } = turn;
    const replyId = replyIdOf(turn.submissionId);
    const asked = await this.#asked(attempt, replyId);
    const setup = await this.port.source.setup({
      requestId: turn.submissionId,
      thread,
      signal,
      model: turn.plan?.model,
      messagesFor: (tools) =>
        convertToModelMessages(asked, { tools, ignoreIncompleteToolCalls: true }),
    });
    const known = new Set(asked.map(({ id }) => id));
    return streamedReply(attempt, await attempt.armed(setup), { replyId, known, watcher });
  }

  /** What the model is asked: the thread with the turn's messages at its end, or these alone. */
  async #asked(attempt: Attempt, replyId: string): Promise<UIMessage[]> {
    const { thread, messages } = attempt.turn;
    if (isIsolated(thread)) return messages;
    if (attempt.isFollowUp) await this.threads.append(thread, messages);
    else await this.threads.ask(thread, messages, { replyId, isAgain: attempt.turn.isAgain });
    const newest = await this.threads.history(thread);
    const ids = messages.map(({ id }) => id);
    await this.threads.prune(thread, newest, [...ids, replyId]);
    return newest.messages;
  }
}
