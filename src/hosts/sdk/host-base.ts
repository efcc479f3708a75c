/** What the turns of every host have in common: who hears of a status, and whether the caller runs inside a turn. */

import { getCurrentAgent } from "agents";
import type { TurnOptions, Watchers } from "../../kernel/index.ts";
import type { Outbox } from "../../kernel/outbox/index.ts";
import type { SubmissionInspection } from "../../kernel/submissions/index.ts";
import type { Turn, TurnEnd, TurnHost } from "../../kernel/submissions/internal.ts";
import { TurnScope } from "./turn-scope.ts";

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

type Common =
  | "run"
  | "onStatus"
  | "hasStatusHook"
  | "isInHostContext"
  | "isInsideTurn"
  | "submissionOf";

export abstract class HostBase implements Pick<TurnHost, Common> {
  /** Of the turns that Perdure itself runs. */
  protected readonly scope = new TurnScope();

  constructor(protected readonly parts: HostParts) {}

  protected abstract runTurn(turn: Turn): Promise<TurnEnd>;

  run(turn: Turn): Promise<TurnEnd> {
    return this.scope.run(turn, () => this.runTurn(turn));
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
}
