/** What open work needs of the code, by what the rows say. Pure. */

import type { Kernel } from "../../kernel/index.ts";
import type { Destination } from "../../kernel/outbox/index.ts";
import { bindingsOf, FEATURES_OF_KINDS, isAlike, NAMESPACE } from "../../kernel/outbox/internal.ts";
import type { Need } from "../types.ts";

/** The code that delivers to a destination. Secrets are left out: a check runs where there are others. */
export function needsOf(destination: Destination | undefined): Need[] {
  if (!destination) return [];
  if (destination.kind === "method") return [{ what: "method", name: destination.method }];
  if (destination.kind === "agent") return [{ what: "binding", name: destination.agent }];
  if (destination.kind === "queue") return [{ what: "binding", name: destination.queue }];
  if (destination.kind === "workflow" || destination.kind === "workflow-start")
    return [{ what: "workflow", name: destination.workflow }];
  const [feature] = FEATURES_OF_KINDS.get(destination.kind) ?? [];
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
