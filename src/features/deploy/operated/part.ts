/** Deployments for operators, where the agent runs. The rules and the action are part of the feature. */

import type { OnOne } from "../../../engine/operated/catalog.ts";
import type { ItemVerb, OperatedPart } from "../../../engine/operated/part.ts";
import type { Kernel } from "../../../workflow/agent/kernel.ts";
import type { ACTIONS } from "./catalog.ts";
import type { InstalledOperated } from "./installed.ts";

/** The agent as this action sees it. */
type Operated = { readonly capabilities: Pick<Kernel, "features"> };

const of = ({ capabilities: { features } }: Operated) =>
  (features.get("deployments", "migrate-workflow") as { readonly operated: InstalledOperated })
    .operated;

export const PARTS = {
  deployments: {
    answers: ["succeeds"],
    read: async (operated, now) =>
      operated.capabilities.features.has("deployments") ? of(operated).health(now) : undefined,
    verbs: {
      "migrate-workflow": {
        look: (operated, action) => of(operated).look(action),
        act: (operated, action) => of(operated).act(action),
      } satisfies ItemVerb<Operated, OnOne<typeof ACTIONS>>,
    } satisfies Record<keyof typeof ACTIONS, unknown>,
  } satisfies OperatedPart<Operated>,
};
