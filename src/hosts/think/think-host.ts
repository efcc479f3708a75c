/**
 * A Think agent as the ledger sees it: Think runs the turns of the agent's own conversation, and the AI SDK runs those of other
 * threads (side turns).
 */

import { type ActiveTurn, Think, type ThinkSubmissionInspection } from "@cloudflare/think";
import { getCurrentAgent } from "agents";
import type { UIMessage } from "ai";
import type { Watchers } from "../../kernel/index.ts";
import type { Outbox } from "../../kernel/outbox/index.ts";
import type { SubmissionInspection } from "../../kernel/submissions/index.ts";
import {
  type ConversationState,
  MAIN,
  type Submissions,
  type SubmittedTurn,
  type Turn,
  type TurnEnd,
  type TurnHost,
} from "../../kernel/submissions/internal.ts";
import { ChatFrames } from "../sdk/chat-frames.ts";
import { ChatRecovery } from "../sdk/chat-recovery.ts";
import { SdkTurns } from "../sdk/sdk-turns.ts";
import { TurnScope } from "../sdk/turn-scope.ts";
import type { HookedThink, ThinkHooks } from "./hooks.ts";
import { thinkSource } from "./side-turns.ts";
import { inspectionOf, ThinkLedger } from "./think-ledger.ts";
import { ThinkSubmissions } from "./think-submissions.ts";
import { ThinkTurns } from "./turns/think-turns.ts";
import { TurnIds } from "./turns/turn-ids.ts";

export type ThinkHostOptions = {
  readonly agent: HookedThink;
  readonly watchers: Watchers;
  readonly hasStatusHook: () => boolean;
};

export class ThinkHost implements TurnHost {
  readonly submissions: ThinkSubmissions;
  readonly recovery: ChatRecovery;
  readonly #mainTurns: ThinkTurns;
  readonly ids: TurnIds;
  readonly frames: ChatFrames;
  /** Of side turns. */
  readonly #scope = new TurnScope();
  /** Made at the start, when the hooks of the app's class are known. */
  #startedSideTurns: SdkTurns | undefined;

  constructor(
    private readonly options: ThinkHostOptions,
    outbox: Outbox,
    limits: ConstructorParameters<typeof Submissions>[2],
  ) {
    const { agent, watchers } = options;
    const think = new ThinkLedger(agent);
    this.submissions = new ThinkSubmissions(think, this, outbox, limits);
    this.ids = new TurnIds(agent, this.submissions);
    this.recovery = new ChatRecovery(agent, this.submissions, Think.CHAT_FIBER_NAME);
    this.#mainTurns = new ThinkTurns(agent, this.submissions, this.ids, this.recovery);
    this.frames = new ChatFrames(
      watchers,
      (requestId) => this.#mainTurns.turnOf(requestId),
      () => agent.messages,
    );
  }

  start(): void {
    // A start that failed is tried again on the same object, with its hooks wrapped already.
    if (!this.#startedSideTurns) this.#wrapHooks();
    this.recovery.start();
  }

  /** After all constructors, so that hooks in class fields of the app are wrapped as well. */
  #wrapHooks(): void {
    const { submissions } = this;
    const { agent, watchers } = this.options;
    const app: ThinkHooks = {
      beforeTurn: agent.beforeTurn.bind(agent),
      beforeStep: agent.beforeStep.bind(agent),
      beforeToolCall: agent.beforeToolCall.bind(agent),
      afterToolCall: agent.afterToolCall.bind(agent),
      onStepEnd: agent.onStepEnd.bind(agent),
      onChunk: agent.onChunk.bind(agent),
      onChatResponse: agent.onChatResponse.bind(agent),
      onChatError: agent.onChatError.bind(agent),
      classifyChatError: agent.classifyChatError.bind(agent),
      onChatRecovery: agent.onChatRecovery.bind(agent),
      chatRecovery: agent.chatRecovery,
      observability: agent.observability,
    };
    const onSubmissionStatus = agent.onSubmissionStatus.bind(agent);
    this.#startedSideTurns = new SdkTurns({
      source: thinkSource(agent, app),
      sessions: agent.sessions,
      ledger: () => submissions,
      maxThreadMessages: () => submissions.maxThreadMessages,
      watch: (turn, attempt) => watchers.reply(turn, attempt),
    });
    Object.assign(agent, this.#mainTurns.wrap(app));
    if (!this.hasStatusHook()) return;
    Object.assign(agent, {
      // Think calls it for the submissions that Think runs.
      onSubmissionStatus: (submission: SubmissionInspection | ThinkSubmissionInspection) =>
        onSubmissionStatus(
          "thread" in submission ? submission : inspectionOf(submission, agent.messages),
        ),
    });
  }

  async run(turn: Turn): Promise<TurnEnd> {
    if (turn.thread === MAIN) {
      await this.submissions.think.caughtUp(turn.signal);
      return this.#mainTurns.run(turn);
    }
    return this.#scope.run(turn, () => this.#sideTurns.run(turn));
  }

  /** The turn that the caller runs in, as the app sees it: it has the submission's id. */
  activeTurn(): ActiveTurn | undefined {
    const turn = this.ids.active();
    if (turn) return turn;
    const { submissionId: requestId } = this.#scope;
    if (requestId === undefined) return undefined;
    return { requestId, trigger: "submission", continuation: false };
  }

  submissionOf(requestId: string): string | undefined {
    return this.ids.submissionOf(requestId);
  }

  stop(turn: SubmittedTurn, reason: string | undefined): void {
    // Only the ledger itself recovers side turns.
    if (turn.thread === MAIN) this.#mainTurns.stop(turn, reason);
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

  async onStatus(submission: SubmissionInspection): Promise<void> {
    const { agent, watchers } = this.options;
    watchers.status(submission);
    await agent.onSubmissionStatus(submission);
  }

  hasStatusHook(): boolean {
    return this.options.hasStatusHook();
  }

  isInHostContext(): boolean {
    return getCurrentAgent().agent === this.options.agent;
  }

  isInsideTurn(): boolean {
    return this.activeTurn() !== undefined;
  }

  messages(thread: string): Promise<UIMessage[]> {
    const { agent } = this.options;
    return thread === MAIN ? agent.getMessages() : this.#sideTurns.threads.messages(thread);
  }

  async message(thread: string, id: string): Promise<UIMessage | undefined> {
    if (thread !== MAIN) return this.#sideTurns.threads.replyOf(thread, id);
    return ((await this.options.agent.session.getMessage(id)) as UIMessage | null) ?? undefined;
  }

  async clear(thread: string): Promise<void> {
    await this.#sideTurns.threads.clear(thread);
  }

  #conversationOf({ thread }: SubmittedTurn) {
    return thread === MAIN ? this.#mainTurns.conversation : this.#sideTurns;
  }

  get #sideTurns(): SdkTurns {
    if (!this.#startedSideTurns) throw new Error("The agent has not started");
    return this.#startedSideTurns;
  }
}
