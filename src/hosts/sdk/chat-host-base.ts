/**
 * A host whose SDK has a chat, Think or AIChatAgent: the chat runs the turns of the main conversation, and recovers them. The AI
 * SDK runs those of other threads (side turns).
 */

import type { Agent } from "agents";
import type { Sessions } from "agents/sessions";
import type { UIMessage } from "ai";
import {
  type ConversationState,
  MAIN,
  type Submissions,
  type SubmittedTurn,
  type Turn,
  type TurnEnd,
  type TurnHost,
} from "../../kernel/submissions/internal.ts";
import { ChatFrames, type FramedTurn } from "./chat-frames.ts";
import { ChatRecovery } from "./chat-recovery.ts";
import type { MainConversation } from "./conversation.ts";
import type { HostParts } from "./host-base.ts";
import { SdkHost } from "./sdk-host.ts";
import type { TurnSource } from "./turn-source.ts";

/** The turns of the main conversation. */
type MainTurns = Pick<TurnHost, "run" | "stop"> & {
  readonly conversation: MainConversation;
  /** The submission that a turn of the chat runs, by the chat's id of the turn. */
  turnOf(requestId: string): FramedTurn | undefined;
};

export abstract class ChatHostBase<
  Ledger extends Submissions = Submissions,
> extends SdkHost<Ledger> {
  readonly recovery: ChatRecovery;
  readonly frames: ChatFrames;
  abstract readonly mainTurns: MainTurns;
  #hasStarted = false;

  constructor(
    parts: HostParts,
    chat: {
      readonly agent: Pick<Agent, "parentPath" | "tasks"> & {
        readonly sessions: Sessions;
        readonly messages: readonly UIMessage[];
      };
      /** Of side turns. */
      readonly source: TurnSource;
      /** The task that runs a turn of the chat. */
      readonly turnTask: string;
    },
    makeLedger?: (host: TurnHost) => Ledger,
  ) {
    const { agent, source, turnTask } = chat;
    super(parts, { source, sessions: agent.sessions }, makeLedger);
    this.recovery = new ChatRecovery(agent, this.submissions, turnTask);
    this.frames = new ChatFrames(
      parts.watchers,
      (requestId) => this.mainTurns.turnOf(requestId),
      () => agent.messages,
    );
  }

  /** Wraps the hooks of the app's class. */
  protected abstract wrapHooks(): void;

  /** After all constructors, so that hooks in class fields of the app are wrapped as well. */
  override start(): void {
    // A start that failed is tried again on the same object, with its hooks wrapped already.
    if (!this.#hasStarted) this.wrapHooks();
    this.#hasStarted = true;
    this.recovery.start();
  }

  override run(turn: Turn): Promise<TurnEnd> {
    return turn.thread === MAIN ? this.mainTurns.run(turn) : super.run(turn);
  }

  override stop(turn: SubmittedTurn, reason: string | undefined): void {
    if (turn.thread === MAIN) this.mainTurns.stop(turn, reason);
  }

  override inspectConversation(turn: SubmittedTurn): Promise<ConversationState> {
    return this.#conversationOf(turn).inspectConversation(turn);
  }

  override removeMessages(turn: SubmittedTurn): Promise<void> {
    return this.#conversationOf(turn).removeMessages(turn);
  }

  override async isRecovering(thread: string): Promise<boolean> {
    return thread === MAIN && (await this.recovery.isOpen());
  }

  override async message(thread: string, id: string): Promise<UIMessage | undefined> {
    return thread === MAIN ? this.mainTurns.conversation.message(id) : super.message(thread, id);
  }

  #conversationOf({ thread }: SubmittedTurn) {
    return thread === MAIN ? this.mainTurns.conversation : this.turns;
  }
}
