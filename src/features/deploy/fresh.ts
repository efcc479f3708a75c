/** Whether a run begins now, or has begun before its class had a version: by the events of its instance. */

import { withTimeout } from "../../core/clock.ts";
import { preview } from "../../core/json.ts";
import { bindingOf, WORKFLOW } from "../../outbox/destinations/bindings.ts";
import type { RunName } from "./store.ts";

/** How long the platform may take to tell the events. The step that asks is repeated. */
const TIMEOUT_MS = 30_000;
const STARTS = ["step_started", "sleep_started", "wait_started"] as const;

/**
 * Whether the instance has made no step but those of Perdure's own bookkeeping, up to the step `perdure:version` that asks.
 * https://developers.cloudflare.com/workflows/build/subscribe-to-instance-events/
 *
 * @throws Error where the platform does not tell: the run must not take a wrong path
 */
export async function isFresh(env: object, { workflow, instance }: RunName): Promise<boolean> {
  const binding = bindingOf(env, WORKFLOW, workflow);
  const found = await withTimeout(binding.get(instance), TIMEOUT_MS);
  if (typeof found.subscribe !== "function") {
    throw new Error(
      `The events of workflow ${preview(instance)} cannot be read: this runtime has no subscribe(). Update wrangler.`,
    );
  }
  const filter = ["workflow_queued" as const, ...STARTS];
  // Not by `using`, which bundlers replace by more code than all of this.
  const events = await withTimeout(found.subscribe({ filter }), TIMEOUT_MS);
  try {
    for (let isNew = true; ; ) {
      const { value, done } = await withTimeout(events.next(), TIMEOUT_MS);
      if (done || !value)
        throw new Error(`The events of workflow ${preview(instance)} have ended.`);
      const name = "stepName" in value ? value.stepName : undefined;
      // After a restart the instance begins anew.
      if (name === undefined) isNew = true;
      else if (name.startsWith("perdure:version")) return isNew;
      else if (!name.startsWith("perdure:")) isNew = false;
    }
  } finally {
    events[Symbol.dispose]();
  }
}
