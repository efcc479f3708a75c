/**
 * Runs side turns, those outside the agent's own conversation, by the AI SDK: in a named thread, which keeps their messages, or
 * isolated, where nothing is kept.
 */

import type { Sessions } from "agents/sessions";
import { convertToModelMessages, type UIMessage } from "ai";
import { failureOf } from "../../core/failures.ts";
import { isReset } from "../../engine/resets.ts";
import {
  type ConversationState,
  type SubmittedTurn,
  type Turn,
  type TurnEnd,
  TurnRefused,
} from "../../submissions/host.ts";
import { isIsolated } from "../../submissions/threads.ts";
import type { ReplyWatcher } from "../../workflow/agent/watchers.ts";
import { Attempt, type EndedTurn, type TurnLedger } from "./attempt.ts";
import {
  continued,
  isPartial,
  isProviderResult,
  keptOf,
  replyIdOf,
  textOf,
} from "./conversation.ts";
import { streamedReply } from "./streamed-reply.ts";
import { Threads } from "./threads.ts";
import type { TurnSource } from "./turn-source.ts";

export type SdkTurnsOptions = {
  readonly source: TurnSource;
  /** Where named threads are kept. */
  readonly sessions: Sessions;
  readonly ledger: () => TurnLedger;
  /** Messages of a named thread that are kept; without it all are. */
  readonly maxThreadMessages?: () => number;
  /** Who sees the reply of an attempt while it is written. */
  readonly watch?: (turn: Turn, attempt: number) => ReplyWatcher | undefined;
};

export class SdkTurns {
  readonly threads: Threads;

  constructor(private readonly options: SdkTurnsOptions) {
    this.threads = new Threads(options.sessions, options.maxThreadMessages);
  }

  /**
   * Runs a turn to its end.
   * @throws TurnRefused when the submission must not run any more, and what the platform throws when it resets the object
   */
  async run(turn: Turn): Promise<TurnEnd> {
    const { thread } = turn;
    const ref = turn.begin();
    await turn.announced();
    const attempt = new Attempt({
      ledger: this.options.ledger(),
      ref,
      plan: turn.plan,
      // Nothing is left of an incomplete reply when another attempt asks again.
      settled: turn.isAgain ? () => [] : undefined,
    });
    const watcher = this.options.watch?.(turn, ref.attempt);
    const reply = await this.#reply(turn, attempt, watcher).catch((cause: unknown) => {
      attempt.failed(cause);
      return undefined;
    });
    watcher?.end();
    if (isReset(attempt.error?.cause)) throw attempt.error?.cause;
    const text = textOf(reply);
    const end = attempt.end({ ...endOf(turn, attempt), text }, text);
    if (isIsolated(thread)) return end;
    const kept = await this.#keptOf(turn, attempt, reply, end);
    if (!kept) return end;
    if (turn.isGivenUp) throw new TurnRefused();
    await this.threads.reply(thread, kept);
    return "finishReason" in end ? { ...end, messageId: kept.id } : end;
  }

  /** What of the reply is stored: a follow-up adds its part to the reply of the earlier attempt. */
  async #keptOf(
    turn: Turn,
    { isFollowUp }: Attempt,
    reply: UIMessage | undefined,
    end: TurnEnd,
  ): Promise<UIMessage | undefined> {
    const id = replyIdOf(turn.submissionId);
    const isCut = end.outcome !== "completed";
    if (!isFollowUp) return reply && keptOf({ ...reply, id }, isCut);
    // A reply that failed is not added: it is asked for again.
    if (end.outcome === "error" && !end.answer) return undefined;
    const earlier = await this.threads.replyOf(turn.thread, id);
    return continued(earlier, reply && keptOf({ ...reply, id }, isCut), isCut);
  }

  /** What a turn has left in its thread. An isolated turn leaves nothing. */
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

  /** Removes the turn's messages and the replies to them from its thread. */
  async removeMessages({ submissionId, thread, messages }: SubmittedTurn): Promise<void> {
    if (isIsolated(thread)) return;
    const ids = messages.map(({ id }) => id);
    await this.threads.removeMessages(thread, ids, replyIdOf(submissionId));
  }

  async #reply(
    turn: Turn,
    attempt: Attempt,
    watcher: ReplyWatcher | undefined,
  ): Promise<UIMessage | undefined> {
    const { submissionId, thread, signal } = turn;
    const replyId = replyIdOf(submissionId);
    const asked = await this.#asked(turn, attempt, replyId);
    const source = await this.options.source({
      requestId: submissionId,
      thread,
      signal,
      model: turn.plan?.model,
      messagesFor: (tools) =>
        convertToModelMessages(asked, { tools, ignoreIncompleteToolCalls: true }),
    });
    return streamedReply(attempt, source, {
      replyId,
      thread,
      requestId: submissionId,
      known: new Set(asked.map(({ id }) => id)),
      watcher,
      signal,
      store: async (joining) => {
        if (!isIsolated(thread)) await this.threads.append(thread, joining);
      },
    });
  }

  /** What the model is asked: the thread with the turn's messages at its end, or these alone. */
  async #asked(
    { thread, messages, isAgain }: Turn,
    { isFollowUp }: Attempt,
    replyId: string,
  ): Promise<UIMessage[]> {
    if (isIsolated(thread)) return messages;
    if (isFollowUp) await this.threads.append(thread, messages);
    else await this.threads.ask(thread, messages, { replyId, isAgain });
    const newest = await this.threads.history(thread);
    const ids = messages.map(({ id }) => id);
    await this.threads.prune(thread, newest, [...ids, replyId]);
    return newest.messages;
  }
}

function endOf({ signal }: Turn, { error, isUnanswered }: Attempt): EndedTurn {
  if (signal.aborted) return { outcome: "aborted" };
  if (!error || isUnanswered) return { outcome: "completed" };
  const { cause } = error;
  return { outcome: "error", failure: failureOf(cause), cause };
}
