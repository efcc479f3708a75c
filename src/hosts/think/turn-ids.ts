/**
 * Think gives each turn that it runs an id of its own; hooks and events of the app show the submission's in its place.
 * In memory only: a turn that a crash has interrupted is recognised by its messages.
 */

import { AsyncLocalStorage } from "node:async_hooks";
import { type ActiveTurn, Think } from "@cloudflare/think";
import type { ObservabilityEvent } from "agents/observability";
import type { Submissions } from "../../submissions/submissions.ts";
import { idsOf, lastAsked } from "../sdk/conversation.ts";

/** Think runs one turn at a time; events of earlier turns may arrive late. */
const MAX_KNOWN = 100;

/** The ids of a turn in hooks and events. */
type TurnInfo = {
  readonly requestId?: unknown;
  readonly recoveryRootRequestId?: unknown;
  readonly trigger?: unknown;
};

export class TurnIds {
  /** By Think's id of a turn: its submission, or null for a turn of none. */
  readonly #known = new Map<string, string | null>();
  /** Inside of `runTurn()`: the submission, until its turn has got an id. */
  readonly #starting = new AsyncLocalStorage<{ submissionId: string | undefined }>();

  constructor(
    private readonly agent: Think,
    private readonly submissions: Submissions,
  ) {}

  /** The running turn with Think's own id; `agent.activeTurn` has the submission's id in its place. */
  get own(): ActiveTurn | undefined {
    return Reflect.get(Think.prototype, "activeTurn", this.agent) as ActiveTurn | undefined;
  }

  /** Runs `work`; the first turn of Think in it is the submission's. */
  start<T>(submissionId: string, work: () => Promise<T>): Promise<T> {
    return this.#starting.run({ submissionId }, work);
  }

  /** The submission that a turn of Think is for: the one that is run, or one that a crash has interrupted. */
  of({ requestId, trigger }: ActiveTurn): string | undefined {
    const starting = this.#starting.getStore();
    if (starting?.submissionId !== undefined && trigger === "programmatic") {
      this.set(requestId, starting.submissionId);
      starting.submissionId = undefined;
    }
    if (trigger.startsWith("recovery-")) this.#recognise(requestId);
    return this.submissionOf(requestId);
  }

  /** An interrupted turn, or its recovery: the last user messages of the conversation identify its submission. */
  #recognise(requestId: string): void {
    if (this.#known.has(requestId)) return;
    const asked = idsOf(lastAsked(this.agent.messages));
    const submission = asked.size > 0 ? this.submissions.store.findByMessage(asked) : undefined;
    this.set(requestId, submission?.submissionId ?? null);
  }

  /** The turn that runs, as the app sees it. */
  active(): ActiveTurn | undefined {
    const turn = this.own;
    if (turn) this.of(turn);
    return turn && this.shown(turn);
  }

  /** What Think reports about the recovery of a turn, as the app sees it. It may be the first event of the turn. */
  shownRecovery<Info extends TurnInfo>(info: Info): Info {
    if (typeof info.requestId === "string") this.#recognise(info.requestId);
    return this.shown(info);
  }

  /** An event of agents or of Think, as the app sees it. */
  shownEvent(event: ObservabilityEvent): ObservabilityEvent {
    // The first event of a turn comes before anything else of it.
    if (this.own) this.of(this.own);
    const { type, payload: own } = event as { type: string; payload: TurnInfo };
    const payload = type.startsWith("chat:recovery:") ? this.shownRecovery(own) : this.shown(own);
    return payload === event.payload ? event : ({ ...event, payload } as ObservabilityEvent);
  }

  set(requestId: string, submissionId: string | null): void {
    this.#known.delete(requestId);
    this.#known.set(requestId, submissionId);
    const [oldest] = this.#known.keys();
    if (this.#known.size > MAX_KNOWN && oldest !== undefined) this.#known.delete(oldest);
  }

  /** The submission of a turn, by Think's id of it. */
  submissionOf(requestId: string): string | undefined {
    return this.#known.get(requestId) ?? undefined;
  }

  /** Think's id of the latest turn of a submission. */
  turnOf(submissionId: string): string | undefined {
    return [...this.#known].findLast(([, known]) => known === submissionId)?.[0];
  }

  /** The same with the submission's id in place of Think's, and with the trigger that Think has for submissions. */
  shown<Info extends TurnInfo>(info: Info): Info {
    const { requestId, trigger } = info;
    const shown = typeof requestId === "string" ? this.submissionOf(requestId) : undefined;
    if (shown === undefined) return info;
    return {
      ...info,
      requestId: shown,
      ...(info.recoveryRootRequestId !== undefined && { recoveryRootRequestId: shown }),
      ...(trigger === "programmatic" && { trigger: "submission" }),
    };
  }
}
