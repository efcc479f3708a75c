/** What open work needs of the code, by what the rows say. Pure. */

import { bindingsOf, isAlike, NAMESPACE } from "../../../outbox/destinations/bindings.ts";
import { FEATURES as FEATURES_OF_KINDS } from "../../../outbox/destinations/index.ts";
import type { OpenTarget } from "../../../outbox/store/open-work.ts";
import type { Kernel } from "../../../workflow/agent/kernel.ts";
import type { Need } from "../types.ts";

/** What each kind of destination names in the code. */
const NAMED: ReadonlyMap<string, readonly [field: string, what: Need["what"]]> = new Map([
  ["method", ["method", "method"]],
  ["agent", ["agent", "binding"]],
  ["queue", ["queue", "binding"]],
  ["workflow", ["workflow", "workflow"]],
  ["workflow-start", ["workflow", "workflow"]],
]);

/** The code that delivers to a destination. Secrets are left out: a check runs where there are others. */
export function needsOf(target: OpenTarget | undefined): Need[] {
  const [field, what] = NAMED.get(target?.kind ?? "") ?? [];
  const name = field && target?.[field];
  if (what && name) return [{ what, name }];
  const [feature] = FEATURES_OF_KINDS.get(target?.kind) ?? [];
  return feature === undefined ? [] : [{ what: "feature", name: feature }];
}

/** The feature that a wait of this kind needs. The kernel has those of prompts, batches and approvals. */
export function needsOfKind({ features }: Pick<Kernel, "features">, kind: string): Need[] {
  const feature = features.missing("steps", kind)?.feature;
  return feature === undefined ? [] : [{ what: "feature", name: feature }];
}

/** The binding by which workflows call the agent, as far as it is known without a call. */
export function ownBindingOf({ agent, env }: Pick<Kernel, "agent" | "env">): string | undefined {
  const [root] = agent.selfPath;
  if (agent.ownBinding) return agent.ownBinding();
  return bindingsOf(env, NAMESPACE).find(([name]) => isAlike(name, root?.className ?? ""))?.[0];
}

/** Each once. */
export function distinct(needs: readonly Need[]): Need[] {
  return [...new Map(needs.map((need) => [`${need.what} ${need.name}`, need])).values()];
}
