/** A host whose turns all run by the AI SDK, in the main conversation as in other threads. */

import { getCurrentAgent } from "agents";
import type { Sessions } from "agents/sessions";
import type { UIMessage } from "ai";
import type { TurnOptions, Watchers } from "../../kernel/index.ts";
import type { Outbox } from "../../kernel/outbox/index.ts";
import type { SubmissionInspection } from "../../kernel/submissions/index.ts";
import {
  type CheckedSubmission,
  type ConversationState,
  Submissions,
  type SubmittedTurn,
  type Turn,
  type TurnEnd,
  type TurnHost,
} from "../../kernel/submissions/internal.ts";
import { OBJECT } from "../limitations.ts";
import { checkChannel, NotSupportedByHostError } from "../support.ts";
import { SdkTurns } from "./sdk-turns.ts";
import { TurnScope } from "./turn-scope.ts";
import type { TurnSource } from "./turn-source.ts";

export type SdkHostOptions = {
  readonly name: "perdure/agent" | "perdure/chat" | "perdure/object";
  /** Whether the app has one model, and cannot choose it by its id. */
  readonly hasOneModel: boolean;
  /** The app's object. */
  readonly object: object;
  readonly source: TurnSource;
  /** Where the conversations are kept. */
  readonly sessions: Sessions;
  readonly watchers: Watchers;
  /** Calls the app's status hook. */
  readonly onStatus: (submission: SubmissionInspection) => void | Promise<void>;
  readonly hasStatusHook: () => boolean;
};

export class SdkHost implements TurnHost {
  readonly submissions: Submissions;
  readonly #turns: SdkTurns;
  readonly #scope = new TurnScope();

  constructor(
    private readonly options: SdkHostOptions,
    outbox: Outbox,
    limits: TurnOptions,
  ) {
    this.submissions = new Submissions(this, outbox, limits);
    this.#turns = new SdkTurns({
      source: options.source,
      sessions: options.sessions,
      ledger: () => this.submissions,
      maxThreadMessages: () => this.submissions.maxThreadMessages,
      watch: (turn, attempt) => options.watchers.reply(turn, attempt),
    });
  }

  check(submission: CheckedSubmission): void {
    const { name, hasOneModel } = this.options;
    checkChannel(name, submission);
    const { models = [] } = submission.answer ?? {};
    if (name === "perdure/object" && hasOneModel && models.length > 0)
      throw new NotSupportedByHostError(name, "models", OBJECT);
  }

  start(): void {}

  run(turn: Turn): Promise<TurnEnd> {
    return this.#scope.run(turn, () => this.#turns.run(turn));
  }

  /** The ledger itself recovers turns. */
  stop(): void {}

  inspectConversation(turn: SubmittedTurn): Promise<ConversationState> {
    return this.#turns.inspectConversation(turn);
  }

  removeMessages(turn: SubmittedTurn): Promise<void> {
    return this.#turns.removeMessages(turn);
  }

  async isRecovering(): Promise<boolean> {
    return false;
  }

  /** A turn has its submission's id. */
  submissionOf(requestId: string): string {
    return requestId;
  }

  async onStatus(submission: SubmissionInspection): Promise<void> {
    this.options.watchers.status(submission);
    await this.options.onStatus(submission);
  }

  hasStatusHook(): boolean {
    return this.options.hasStatusHook();
  }

  isInHostContext(): boolean {
    return getCurrentAgent().agent === this.options.object;
  }

  isInsideTurn(): boolean {
    return this.#scope.submissionId !== undefined;
  }

  messages(thread: string): Promise<UIMessage[]> {
    return this.#turns.threads.messages(thread);
  }

  message(thread: string, id: string): Promise<UIMessage | undefined> {
    return this.#turns.threads.replyOf(thread, id);
  }

  async clear(thread: string): Promise<void> {
    await this.#turns.threads.clear(thread);
  }
}
