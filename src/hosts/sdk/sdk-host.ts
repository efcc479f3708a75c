/** A host whose turns all run by the AI SDK, in the main conversation as in other threads. */

import type { Sessions } from "agents/sessions";
import type { UIMessage } from "ai";
import {
  type CheckedSubmission,
  type ConversationState,
  Submissions,
  type SubmittedTurn,
  type Turn,
  type TurnEnd,
  type TurnHost,
} from "../../kernel/submissions/internal.ts";
import { HostBase, type HostParts } from "./host-base.ts";
import { SdkTurns } from "./sdk-turns.ts";
import type { TurnSource } from "./turn-source.ts";

export type SdkHostOptions = {
  readonly source: TurnSource;
  /** Where the conversations are kept. */
  readonly sessions: Sessions;
  /** @throws NotSupportedByHostError for a submission that the host cannot run */
  readonly check?: (submission: CheckedSubmission) => void;
};

export class SdkHost<Ledger extends Submissions = Submissions>
  extends HostBase
  implements TurnHost
{
  readonly submissions: Ledger;
  readonly #check: SdkHostOptions["check"];
  protected readonly turns: SdkTurns;

  constructor(
    parts: HostParts,
    { source, sessions, check }: SdkHostOptions,
    makeLedger: (host: TurnHost) => Ledger = (host) =>
      new Submissions(host, parts.outbox, parts.limits) as Ledger,
  ) {
    super(parts);
    this.#check = check;
    this.submissions = makeLedger(this);
    this.turns = new SdkTurns({
      source,
      sessions,
      ledger: () => this.submissions.turns,
      maxThreadMessages: () => this.submissions.ledger.limits.maxThreadMessages,
      watch: (turn, attempt) => parts.watchers.reply(turn, attempt),
    });
  }

  check(submission: CheckedSubmission): void {
    this.#check?.(submission);
  }

  start(): void {}

  protected runTurn(turn: Turn): Promise<TurnEnd> {
    return this.turns.run(turn);
  }

  /** The ledger itself recovers turns. */
  stop(_turn: SubmittedTurn, _reason: string | undefined): void {}

  inspectConversation(turn: SubmittedTurn): Promise<ConversationState> {
    return this.turns.inspectConversation(turn);
  }

  removeMessages(turn: SubmittedTurn): Promise<void> {
    return this.turns.removeMessages(turn);
  }

  async isRecovering(_thread: string): Promise<boolean> {
    return false;
  }

  messages(thread: string): Promise<UIMessage[]> {
    return this.turns.threads.messages(thread);
  }

  message(thread: string, id: string): Promise<UIMessage | undefined> {
    return this.turns.threads.replyOf(thread, id);
  }

  clear(thread: string): Promise<void> {
    return this.turns.threads.clear(thread);
  }
}
