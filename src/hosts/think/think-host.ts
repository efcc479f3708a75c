/**
 * A Think agent as the ledger knows it: turns of its own conversation are run
 * by Think, those of any other thread beside it.
 */

import { AsyncLocalStorage } from "node:async_hooks";
import type { ActiveTurn } from "@cloudflare/think";
import type { UIMessage } from "ai";
import {
  type ConversationState,
  MAIN,
  type SubmissionInspection,
  type SubmittedTurn,
  type Turn,
  type TurnEnd,
  type TurnHost,
} from "../../submissions/index.ts";
import { SdkTurns } from "../sdk/sdk-turns.ts";
import type { ThinkHooks, ThinkPort } from "./hooks.ts";
import { thinkSource } from "./side-turns.ts";
import { ThinkRecovery } from "./turns/think-recovery.ts";
import { ThinkTurns } from "./turns/think-turns.ts";
import { TurnIds } from "./turns/turn-ids.ts";

/** A turn beside the conversation. */
type Aside = { readonly submissionId: string; isOver: boolean };

export class ThinkHost implements TurnHost {
  readonly #main: ThinkTurns;
  readonly #ids: TurnIds;
  /** What Think itself still has to recover. */
  readonly recovery: ThinkRecovery;
  readonly #insideAside = new AsyncLocalStorage<Aside>();
  /** Made when the app's hooks are known. */
  #aside: SdkTurns | undefined;

  constructor(private readonly port: ThinkPort) {
    this.#ids = new TurnIds(port);
    this.#main = new ThinkTurns(port, this.#ids);
    this.recovery = new ThinkRecovery(port);
  }

  start(): void {
    // A start that failed is tried again on the same object, with its hooks wrapped already.
    if (!this.#aside) this.port.wrapHooks();
    this.recovery.start();
  }

  /** The app's hooks with Perdure's part around them. */
  wrap(app: ThinkHooks): ThinkHooks {
    const { agent, ledger } = this.port;
    this.#aside = new SdkTurns({
      source: thinkSource(agent, app),
      sessions: agent.sessions,
      ledger,
      maxThreadMessages: () => ledger().maxThreadMessages,
      watch: (turn, attempt) => this.port.clients.reply(turn, attempt),
    });
    return this.#main.wrap(app);
  }

  async run(turn: Turn): Promise<TurnEnd> {
    if (turn.thread !== MAIN) return this.#runAside(turn);
    await this.port.think.caughtUp(turn.signal);
    return this.#main.run(turn);
  }

  async #runAside(turn: Turn): Promise<TurnEnd> {
    const aside: Aside = { submissionId: turn.submissionId, isOver: false };
    try {
      return await this.#insideAside.run(aside, () => this.#besides.run(turn));
    } finally {
      aside.isOver = true;
    }
  }

  /** The turn that the caller runs in, as the app sees it: it has the submission's id. */
  activeTurn(): ActiveTurn | undefined {
    const turn = this.#ids.active();
    if (turn) return turn;
    const aside = this.#insideAside.getStore();
    if (!aside || aside.isOver) return undefined;
    return { requestId: aside.submissionId, trigger: "submission", continuation: false };
  }

  submissionOf(requestId: string): string | undefined {
    return this.#ids.submissionOf(requestId);
  }

  /** Think's id of the latest turn of a submission. */
  turnOf(submissionId: string): string | undefined {
    return this.#ids.turnOf(submissionId);
  }

  stop(turn: SubmittedTurn, reason: string | undefined): void {
    // Nobody recovers a turn beside the conversation but the ledger itself.
    if (turn.thread === MAIN) this.#main.stop(turn, reason);
  }

  inspectConversation(turn: SubmittedTurn): Promise<ConversationState> {
    return this.#of(turn).inspectConversation(turn);
  }

  removeMessages(turn: SubmittedTurn): Promise<void> {
    return this.#of(turn).removeMessages(turn);
  }

  async isRecovering(thread: string): Promise<boolean> {
    return thread === MAIN && (await this.recovery.isOpen());
  }

  onStatus(submission: SubmissionInspection): Promise<void> {
    this.port.clients.status(submission);
    return this.port.onStatus(submission);
  }

  isInHostContext(): boolean {
    return this.port.isInContext();
  }

  isInsideTurn(): boolean {
    return this.activeTurn() !== undefined;
  }

  /** What a named thread has come to. */
  messages(thread: string): Promise<UIMessage[]> {
    return thread === MAIN ? this.port.agent.getMessages() : this.#besides.threads.messages(thread);
  }

  async clear(thread: string): Promise<void> {
    await this.#besides.threads.clear(thread);
  }

  #of({ thread }: SubmittedTurn): Pick<TurnHost, "inspectConversation" | "removeMessages"> {
    return thread === MAIN ? this.#main : this.#besides;
  }

  get #besides(): SdkTurns {
    if (!this.#aside) throw new Error("The agent has not started");
    return this.#aside;
  }
}
