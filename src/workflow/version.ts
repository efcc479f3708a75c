/** `step.version()`: whether a run has begun with a change of its class. `versions()` of `perdure/deploy` answers it. */

import { invalidStep } from "../core/steps.ts";
import type { CallOf } from "./step-call.ts";

/** Key of a step, under which `versions()` answers. A symbol, so that a proxy or a copy of the step has it, too. */
export const CHANGES: unique symbol = Symbol("perdure.changes");

export interface VersionSteps {
  /**
   * Whether the run has begun by code with this change, which its class lists: `static changes = ["new-tax-rule"]`. The answer
   * stays the same in all replays. Runs that began before the change get false, and continue by the code before it.
   *
   * @throws InvalidVersionError for a change that the class does not list, or a class that `versions()` does not export
   * @example const rate = (await step.version("new-tax-rule")) ? 0.21 : 0.19;
   */
  version(change: string): Promise<boolean>;
}

export const STEPS = {
  version:
    (callOf: CallOf): VersionSteps["version"] =>
    async (change) => {
      const has = (callOf(change).step as { [CHANGES]?: (change: string) => boolean })[CHANGES];
      if (has) return has(change);
      throw invalidStep("version", "step.version() needs versions().");
    },
};
