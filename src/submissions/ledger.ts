/** What the parts of the ledger share. One for each object instance. */

import type { LifecycleServices } from "agents/lifecycle";
import type { Clock } from "../core/clock.ts";
import { type OnProblem, reportProblem } from "../core/problems.ts";
import { Wake } from "../core/wake.ts";
import type { Outbox } from "../outbox/outbox.ts";
import type { TurnHost } from "./host.ts";
import { inspect } from "./inspection.ts";
import type { Limits } from "./options.ts";
import type { Summary } from "./store/rows.ts";
import { SubmissionStore } from "./store/store.ts";
import { callStatusHook, StatusHooks } from "./turns/status-hooks.ts";

type LedgerParts = {
  readonly host: TurnHost;
  readonly outbox: Outbox;
  readonly clock: Clock;
  readonly limits: Limits;
  readonly onProblem: OnProblem | undefined;
  /** Available once the capability is installed, which is after its construction. */
  readonly lifecycle: () => LifecycleServices;
  /** Does what is due, and returns when it wants to be woken next. */
  readonly drive: () => Promise<number | null>;
};

export class Ledger {
  readonly host: TurnHost;
  readonly outbox: Outbox;
  readonly clock: Clock;
  readonly limits: Limits;
  readonly wake: Wake;
  readonly hooks: StatusHooks;
  readonly #lifecycle: () => LifecycleServices;
  readonly #onProblem: OnProblem | undefined;
  #store: SubmissionStore | undefined;

  constructor({ host, outbox, clock, limits, onProblem, lifecycle, drive }: LedgerParts) {
    this.host = host;
    this.outbox = outbox;
    this.clock = clock;
    this.limits = limits;
    this.#onProblem = onProblem;
    this.#lifecycle = lifecycle;
    this.wake = new Wake(lifecycle, "perdure.submissions", drive, clock);
    this.hooks = new StatusHooks(
      (submission) => callStatusHook(submission, host, lifecycle()),
      limits.hookTimeoutMs,
    );
  }

  get lifecycle(): LifecycleServices {
    return this.#lifecycle();
  }

  get store(): SubmissionStore {
    this.#store ??= new SubmissionStore(this.lifecycle.storage, this.limits);
    return this.#store;
  }

  /** Reports a new status to the app, and an error to `onProblem` as well. */
  announce(submission: Summary): void {
    const inspection = inspect(submission);
    if (inspection.status === "error") {
      const { submissionId, thread, attempts, error = "", errorName = "" } = inspection;
      const ids = { submissionId, thread, attempts, errorName };
      const problem = { type: "submission:error", level: "error", message: error, ids } as const;
      reportProblem(this.#onProblem, problem, (work) => this.inHostContext(work));
    }
    this.hooks.announce(inspection);
  }

  /** Runs code of the app in the host's context. */
  inHostContext<T>(work: () => Promise<T>): Promise<T> {
    return this.lifecycle.runInHostContext(work) as Promise<T>;
  }
}
