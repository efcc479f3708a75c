/** Reports each new status of a submission, in the context of the request that changed it. */

import { type OnProblem, reportProblem } from "../core/problems.ts";
import { emit } from "../engine/events.ts";
import type { WorkLoop } from "../engine/work-loop.ts";
import type { TurnHost } from "./host.ts";
import { inspect } from "./inspection.ts";
import type { Limiter } from "./limiter.ts";
import { StatusHooks } from "./status-hooks.ts";
import type { Summary } from "./store/rows.ts";
import type { SubmissionInspection } from "./types.ts";

export class Statuses {
  readonly hooks: StatusHooks;

  constructor(
    private readonly loop: WorkLoop,
    private readonly host: TurnHost,
    private readonly limiter: Limiter,
    limits: { readonly hookTimeoutMs: number },
    private readonly onProblem: OnProblem | undefined,
  ) {
    const isHooked = () => host.hasStatusHook?.() ?? true;
    this.hooks = new StatusHooks((one) => this.#callHook(one), limits, isHooked);
  }

  /** Releases the capacity of a submission that does not run, and calls the app's hook; reports an error to `onProblem` as well. */
  announce(submission: Summary): void {
    const { seq, status, mergedInto } = submission;
    // One that waits, has ended or has joined another turn uses nothing more.
    if (status !== "running" || mergedInto !== undefined) this.limiter.gate?.released(seq);
    const inspection = inspect(submission);
    if (inspection.status === "error") {
      const { submissionId, thread, attempts, error = "", errorName = "" } = inspection;
      const ids = { submissionId, thread, attempts, errorName };
      const problem = { type: "submission:error", level: "error", message: error, ids } as const;
      reportProblem(this.onProblem, problem, this.loop.inHostContext);
    }
    this.hooks.announce(inspection);
  }

  #callHook(submission: SubmissionInspection): Promise<void> {
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
