/** The state that the parts of the ledger share. One for each object instance. */

import type { Clock } from "../core/clock.ts";
import { type OnProblem, reportProblem } from "../core/problems.ts";
import { emit } from "../engine/events.ts";
import type { Wake } from "../engine/wake.ts";
import type { WorkLoop } from "../engine/work-loop.ts";
import type { Outbox } from "../outbox/outbox.ts";
import type { Gate } from "./gate.ts";
import type { TurnHost } from "./host.ts";
import { inspect } from "./inspection.ts";
import type { Limits } from "./options.ts";
import { StatusHooks } from "./status-hooks.ts";
import type { Summary } from "./store/rows.ts";
import { SubmissionStore } from "./store/store.ts";
import type { Admissions } from "./turns/admission.ts";
import type { SubmissionInspection } from "./types.ts";

export class Ledger {
  readonly clock: Clock;
  readonly wake: Wake;
  readonly hooks: StatusHooks;
  /** The steps of durable tools that run now, by their idempotency keys. */
  readonly runningSteps = new Map<string, Promise<unknown>>();
  /** Set by `installGate()`. */
  gate: Gate | undefined;
  admissions: Admissions | undefined;
  /** @throws FeatureNotInstalledError */
  needGate!: (usedBy: string) => Gate;
  #store: SubmissionStore | undefined;

  constructor(
    readonly loop: WorkLoop,
    readonly host: TurnHost,
    readonly outbox: Outbox,
    readonly limits: Limits,
    private readonly onProblem: OnProblem | undefined,
  ) {
    this.clock = loop.clock;
    this.wake = loop.wake;
    this.hooks = new StatusHooks(
      (one) => this.#callStatusHook(one),
      limits,
      () => host.hasStatusHook?.() ?? true,
    );
  }

  get store(): SubmissionStore {
    this.#store ??= new SubmissionStore(this.loop.lifecycle.storage, this.limits);
    return this.#store;
  }

  /** Reports a new status to the app, and an error to `onProblem` as well. */
  announce(submission: Summary): void {
    const { seq, status, mergedInto } = submission;
    // One that waits, has ended or has joined another turn uses nothing more.
    if (status !== "running" || mergedInto !== undefined) this.gate?.released(seq);
    const inspection = inspect(submission);
    if (inspection.status === "error") {
      const { submissionId, thread, attempts, error = "", errorName = "" } = inspection;
      const ids = { submissionId, thread, attempts, errorName };
      const problem = { type: "submission:error", level: "error", message: error, ids } as const;
      reportProblem(this.onProblem, problem, this.loop.inHostContext);
    }
    this.hooks.announce(inspection);
  }

  /** Emits the events of a status and calls the app's hook, in the context of the request that changed the status. */
  #callStatusHook(submission: SubmissionInspection): Promise<void> {
    const { submissionId, requestId, status, error, attempts } = submission;
    const { lifecycle } = this.loop;
    emit(lifecycle, "submission:status", { submissionId, requestId, status });
    const { storage } = lifecycle;
    if (status === "pending" && attempts > 0) emit({ storage }, "submission:retry");
    if (status === "error") emit(lifecycle, "submission:error", { submissionId, requestId, error });
    const hook = () => this.host.onStatus(submission);
    return this.host.isInHostContext() ? hook() : this.loop.inHostContext(hook);
  }
}
