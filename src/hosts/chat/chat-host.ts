/**
 * An AIChatAgent as the ledger sees it: its own queue runs the turns of the main conversation, and the AI SDK runs those of other
 * threads (side turns).
 */

import { AIChatAgent } from "@cloudflare/ai-chat";
import { getCurrentAgent } from "agents";
import type { UIMessage } from "ai";
import type { TurnOptions, Watchers } from "../../kernel/index.ts";
import type { Outbox } from "../../kernel/outbox/index.ts";
import type { SubmissionInspection } from "../../kernel/submissions/index.ts";
import {
  type CheckedSubmission,
  type ConversationState,
  MAIN,
  Submissions,
  type SubmittedTurn,
  type Turn,
  type TurnEnd,
  type TurnHost,
} from "../../kernel/submissions/internal.ts";
import { CHAT } from "../limitations.ts";
import { ChatFrames } from "../sdk/chat-frames.ts";
import { ChatRecovery } from "../sdk/chat-recovery.ts";
import { SdkTurns } from "../sdk/sdk-turns.ts";
import { TurnScope } from "../sdk/turn-scope.ts";
import type { TurnSource } from "../sdk/turn-source.ts";
import { checkChannel, NotSupportedByHostError } from "../support.ts";
import { ChatTurns } from "./chat-turns.ts";
import type { HookedChat } from "./hooks.ts";

type ChatHostOptions = {
  readonly agent: HookedChat;
  readonly watchers: Watchers;
  /** The model, instructions and tools of side turns. */
  readonly source: TurnSource;
  /** Whether the app's class has a model for side turns. */
  readonly hasModel: boolean;
  readonly hasStatusHook: () => boolean;
};

export class ChatHost implements TurnHost {
  readonly submissions: Submissions;
  readonly recovery: ChatRecovery;
  readonly mainTurns: ChatTurns;
  readonly frames: ChatFrames;
  readonly #sideTurns: SdkTurns;
  /** Of side turns. */
  readonly #scope = new TurnScope();
  #hasStarted = false;

  constructor(
    private readonly options: ChatHostOptions,
    outbox: Outbox,
    limits: TurnOptions,
  ) {
    const { agent, watchers, source } = options;
    this.submissions = new Submissions(this, outbox, limits);
    this.recovery = new ChatRecovery(agent, this.submissions, AIChatAgent.CHAT_FIBER_NAME);
    this.mainTurns = new ChatTurns(agent, this.submissions, this.recovery);
    this.#sideTurns = new SdkTurns({
      source,
      sessions: agent.sessions,
      ledger: () => this.submissions,
      maxThreadMessages: () => this.submissions.maxThreadMessages,
      watch: (turn, attempt) => watchers.reply(turn, attempt),
    });
    this.frames = new ChatFrames(
      watchers,
      (requestId) => this.mainTurns.turnOf(requestId),
      () => agent.messages,
    );
  }

  check(submission: CheckedSubmission): void {
    const name = "perdure/chat";
    checkChannel(name, submission);
    if (this.options.hasModel) return;
    const { models = [] } = submission.answer ?? {};
    if (submission.thread !== MAIN)
      throw new NotSupportedByHostError(name, "other threads without getModel()", CHAT);
    if (models.length > 0)
      throw new NotSupportedByHostError(name, "models without getModel()", CHAT);
  }

  /** After all constructors, so that hooks in class fields of the app are wrapped as well. */
  start(): void {
    // A start that failed is tried again on the same object, with its hooks wrapped already.
    if (!this.#hasStarted) this.#wrapHooks();
    this.#hasStarted = true;
    this.recovery.start();
  }

  #wrapHooks(): void {
    const { agent } = this.options;
    const hooks = this.mainTurns.wrap({
      onChatMessage: agent.onChatMessage.bind(agent),
      onChatResponse: agent.onChatResponse.bind(agent),
      onChatRecovery: agent.onChatRecovery.bind(agent),
      chatRecovery: agent.chatRecovery,
    });
    Object.assign(agent, hooks);
  }

  run(turn: Turn): Promise<TurnEnd> {
    if (turn.thread === MAIN) return this.mainTurns.run(turn);
    return this.#scope.run(turn, () => this.#sideTurns.run(turn));
  }

  /** Only the ledger itself recovers side turns. */
  stop(turn: SubmittedTurn, reason: string | undefined): void {
    if (turn.thread === MAIN) this.mainTurns.stop(turn, reason);
  }

  inspectConversation(turn: SubmittedTurn): Promise<ConversationState> {
    return this.#conversationOf(turn).inspectConversation(turn);
  }

  removeMessages(turn: SubmittedTurn): Promise<void> {
    return this.#conversationOf(turn).removeMessages(turn);
  }

  async isRecovering(thread: string): Promise<boolean> {
    return thread === MAIN && (await this.recovery.isOpen());
  }

  submissionOf(requestId: string): string | undefined {
    return this.mainTurns.submissionOf(requestId);
  }

  async onStatus(submission: SubmissionInspection): Promise<void> {
    const { agent, watchers } = this.options;
    watchers.status(submission);
    await agent.onSubmissionStatus(submission);
  }

  hasStatusHook(): boolean {
    return this.options.hasStatusHook();
  }

  isInHostContext(): boolean {
    return (getCurrentAgent().agent as unknown) === this.options.agent;
  }

  isInsideTurn(): boolean {
    return this.mainTurns.isInsideTurn || this.#scope.submissionId !== undefined;
  }

  messages(thread: string): Promise<UIMessage[]> {
    if (thread !== MAIN) return this.#sideTurns.threads.messages(thread);
    return this.options.agent.sessions.session().getHistory() as Promise<UIMessage[]>;
  }

  async message(thread: string, id: string): Promise<UIMessage | undefined> {
    if (thread !== MAIN) return this.#sideTurns.threads.replyOf(thread, id);
    const found = await this.options.agent.sessions.session().getMessage(id);
    return (found as UIMessage | null) ?? undefined;
  }

  async clear(thread: string): Promise<void> {
    await this.#sideTurns.threads.clear(thread);
  }

  #conversationOf({ thread }: SubmittedTurn) {
    return thread === MAIN ? this.mainTurns.conversation : this.#sideTurns;
  }
}
