/** Base of every host: runs turns by the AI SDK, in the main conversation as in other threads. */

import { AsyncLocalStorage } from "node:async_hooks";
import { getCurrentAgent } from "agents";
import type { Sessions } from "agents/sessions";
import type { UIMessage } from "ai";
import type { Outbox } from "../../outbox/outbox.ts";
import type {
  CheckedSubmission,
  ConversationState,
  SubmittedTurn,
  Turn,
  TurnEnd,
  TurnHost,
} from "../../submissions/host.ts";
import { Submissions } from "../../submissions/submissions.ts";
import type { SubmissionInspection } from "../../submissions/types.ts";
import type { TurnOptions } from "../../workflow/agent/kernel.ts";
import type { Watchers } from "../../workflow/agent/watchers.ts";
import { SdkTurns } from "./sdk-turns.ts";
import type { TurnSource } from "./turn-source.ts";

export type HostHooks = {
  onSubmissionStatus(submission: SubmissionInspection): void | Promise<void>;
};

/** What the turns of an object are made with. */
export type HostParts = {
  /** The app's object. */
  readonly object: object;
  readonly outbox: Outbox;
  readonly limits: TurnOptions;
  readonly watchers: Watchers;
  readonly hooks: HostHooks;
  /** Whether the app overrides `onSubmissionStatus()`. */
  readonly hasStatusHook: () => boolean;
};

type Scope = { readonly submissionId: string; isOver: boolean };

/** The turn that the caller runs in. Code that a turn leaves running after its end is outside of it. */
class TurnScope {
  readonly #scope = new AsyncLocalStorage<Scope>();

  async run<T>({ submissionId }: Pick<Scope, "submissionId">, work: () => Promise<T>): Promise<T> {
    const scope = { submissionId, isOver: false };
    try {
      return await this.#scope.run(scope, work);
    } finally {
      scope.isOver = true;
    }
  }

  /** The turn's submission; undefined outside of a turn. */
  get submissionId(): string | undefined {
    const scope = this.#scope.getStore();
    return scope?.isOver === false ? scope.submissionId : undefined;
  }
}

export type SdkHostOptions = {
  readonly source: TurnSource;
  /** Where the conversations are kept. */
  readonly sessions: Sessions;
  /** @throws NotSupportedByHostError for a submission that the host cannot run */
  readonly check?: (submission: CheckedSubmission) => void;
};

/** All turns run by the AI SDK. */
export class SdkHost<Ledger extends Submissions = Submissions> implements TurnHost {
  readonly submissions: Ledger;
  readonly #check: SdkHostOptions["check"];
  protected readonly turns: SdkTurns;
  /** Of the turns that Perdure itself runs. */
  protected readonly scope = new TurnScope();

  constructor(
    protected readonly parts: HostParts,
    { source, sessions, check }: SdkHostOptions,
    makeLedger: (host: TurnHost) => Ledger = (host) =>
      new Submissions(host, parts.outbox, parts.limits) as Ledger,
  ) {
    this.#check = check;
    this.submissions = makeLedger(this);
    this.turns = new SdkTurns({
      source,
      sessions,
      ledger: () => this.submissions.turns,
      maxThreadMessages: () => this.submissions.limits.maxThreadMessages,
      watch: (turn, attempt) => parts.watchers.reply(turn, attempt),
    });
  }

  check(submission: CheckedSubmission): void {
    this.#check?.(submission);
  }

  start(): void {}

  run(turn: Turn): Promise<TurnEnd> {
    return this.scope.run(turn, () => this.turns.run(turn));
  }

  async onStatus(submission: SubmissionInspection): Promise<void> {
    this.parts.watchers.status(submission);
    await this.parts.hooks.onSubmissionStatus(submission);
  }

  hasStatusHook(): boolean {
    return this.parts.hasStatusHook();
  }

  isInHostContext(): boolean {
    return getCurrentAgent().agent === this.parts.object;
  }

  isInsideTurn(): boolean {
    return this.scope.submissionId !== undefined;
  }

  /** A turn has its submission's id. */
  submissionOf(requestId: string): string | undefined {
    return requestId;
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
