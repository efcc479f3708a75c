/**
 * A host whose SDK has a chat, Think or AIChatAgent: the chat runs the turns of the main conversation, and recovers them. The AI
 * SDK runs those of other threads (side turns).
 */

import type { Agent } from "agents";
import type { Sessions } from "agents/sessions";
import type { UIMessage, UIMessageChunk } from "ai";
import { withTimeout } from "../../core/clock.ts";
import type {
  ConversationState,
  SubmittedTurn,
  Turn,
  TurnEnd,
  TurnHost,
} from "../../submissions/host.ts";
import type { Submissions } from "../../submissions/submissions.ts";
import { MAIN } from "../../submissions/threads.ts";
import type { ReplyWatcher, Watchers } from "../../workflow/agent/watchers.ts";
import { ChatRecovery } from "./chat-recovery.ts";
import type { MainConversation } from "./conversation.ts";
import { type HostParts, SdkHost } from "./sdk-host.ts";
import type { TurnSource } from "./turn-source.ts";

/** The turns of the main conversation. */
type MainTurns = Pick<TurnHost, "run" | "stop"> & {
  readonly conversation: MainConversation;
  /** The submission that a turn of the chat runs, by the chat's id of the turn. */
  turnOf(requestId: string): FramedTurn | undefined;
};

/** How long a turn waits for the call that has submitted it. */
const CALL_MS = 5_000;

export abstract class ChatHostBase<
  Ledger extends Submissions = Submissions,
> extends SdkHost<Ledger> {
  readonly recovery: ChatRecovery;
  readonly frames: ChatFrames;
  abstract readonly mainTurns: MainTurns;
  /** Turns that the app runs itself, on their way into the chat's queue. */
  readonly #entering = new Set<Promise<unknown>>();
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

  override async run(turn: Turn): Promise<TurnEnd> {
    if (turn.thread !== MAIN) return super.run(turn);
    await this.#letCallerGoFirst(turn);
    return this.mainTurns.run(turn);
  }

  /**
   * Resolves when the call that has submitted the turn has returned, and the turns that its caller then runs itself are in the
   * chat's queue: as on Think, they come first.
   */
  async #letCallerGoFirst(turn: Turn): Promise<void> {
    // The call may hang in a sub-agent. The turn need not.
    await withTimeout(this.submissions.loop.wake.settled(), CALL_MS).catch(() => {});
    await turn.announced();
    await new Promise((resolve) => setTimeout(resolve));
    await Promise.allSettled(this.#entering);
  }

  /**
   * The agent was told to stay in memory, which a turn does on its way into the chat's queue. The first call is slow, and
   * submitted turns would overtake.
   */
  enters(entering: Promise<unknown>): void {
    this.#entering.add(entering);
    const entered = () => this.#entering.delete(entering);
    entering.then(entered, entered);
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

const TYPE = "cf_agent_use_chat_response";
/** Turns whose frames are known at the same time. The SDK runs one at a time. */
const MOST_TURNS = 8;

/** The submission that a turn of the chat is for. */
export type FramedTurn = { readonly submissionId: string; readonly attempt: number };

type Frame = {
  readonly type: unknown;
  readonly id: string;
  readonly body: string;
  readonly done: boolean;
  readonly error?: boolean;
  readonly continuation?: boolean;
};

/** A reply, and the ids of its texts that have begun. */
type FramedReply = { readonly watcher: ReplyWatcher; readonly begun: Set<string> };

/**
 * The replies of a chat's main conversation, as the SDK broadcasts them to its clients. The frames are those of
 * node_modules/agents/docs/chat-agents.md, which useAgentChat reads.
 */
class ChatFrames {
  readonly #replies = new Map<string, FramedReply>();

  /**
   * @param turnOf the submission of a turn, by the SDK's id of the turn
   * @param messages the conversation
   */
  constructor(
    private readonly watchers: Pick<Watchers, "chatReply">,
    private readonly turnOf: (requestId: string) => FramedTurn | undefined,
    private readonly messages: () => readonly UIMessage[],
  ) {}

  /** A message is broadcast to the clients. Anything but a part of a reply is ignored. */
  take(message: unknown): void {
    if (typeof message !== "string" || !message.includes(`"type":"${TYPE}"`)) return;
    const { type, id, body, done, error, continuation } = JSON.parse(message) as Frame;
    if (type !== TYPE) return;
    const reply = this.#replies.get(id) ?? this.#begin(id, continuation === true);
    if (!reply) return;
    if (body !== "" && !error) take(reply, JSON.parse(body) as UIMessageChunk);
    if (!done && !error) return;
    reply.watcher.end();
    this.#replies.delete(id);
  }

  #begin(id: string, isContinuation: boolean): FramedReply | undefined {
    const turn = this.turnOf(id);
    if (!turn) return undefined;
    const last = isContinuation ? this.messages().at(-1) : undefined;
    const base = last?.role === "assistant" ? structuredClone(last) : undefined;
    const { submissionId, attempt } = turn;
    const watcher = this.watchers.chatReply(submissionId, attempt, base);
    const reply = { watcher, begun: new Set<string>() };
    const [oldest] = this.#replies.keys();
    if (this.#replies.size >= MOST_TURNS && oldest !== undefined) this.#replies.delete(oldest);
    this.#replies.set(id, reply);
    return reply;
  }
}

/** In a continued reply, AIChatAgent leaves out the start of a text: its client adds to the text before it. */
function take({ watcher, begun }: FramedReply, chunk: UIMessageChunk): void {
  const isDelta = chunk.type === "text-delta" || chunk.type === "reasoning-delta";
  if (chunk.type === "text-start" || chunk.type === "reasoning-start") begun.add(chunk.id);
  else if (isDelta && !begun.has(chunk.id)) {
    begun.add(chunk.id);
    const type = chunk.type === "text-delta" ? "text-start" : "reasoning-start";
    watcher.chunk({ type, id: chunk.id });
  }
  watcher.chunk(chunk);
}
