/** Deployments for operators, as data. */

import type { ActionCatalog, ActionOf, FindingCatalog } from "../../../engine/operated/catalog.ts";

export const FINDINGS = {
  "version-gone": "succeeds",
  "deploys-interrupt": "succeeds",
} as const satisfies FindingCatalog;

export const ACTIONS = {
  "migrate-workflow": {
    label: "Migrate",
    fields: {
      workflowId: ["id", "the id of the instance"],
      version: ["id", "the version whose code continues it"],
    },
    does: "Has the code of another version continue a workflow, from its next start of the engine on.",
    loss: "its later steps run by other code",
    isDestructive: true,
    isIdempotent: true,
  },
} as const satisfies ActionCatalog;

export type Action = ActionOf<typeof ACTIONS, unknown>;
