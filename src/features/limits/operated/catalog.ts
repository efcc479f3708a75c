/** Limits for operators, as data. */

import type { ActionCatalog, ActionOf, FindingCatalog } from "../../../engine/operated/catalog.ts";

export const FINDINGS = {
  "limit-full": "starts",
  "limit-waits-long": "starts",
  "limit-paused": "starts",
  "limit-money": "starts",
  "limit-lowered": "starts",
  "limit-slowed": "starts",
  "keeper-unreachable": "starts",
  "limit-not-applied": null,
} as const satisfies FindingCatalog;

const target = {
  fields: {
    limit: ["id", "the name of the limit"],
    key: ["key", "the key, none for a limit without keys"],
  },
  isIdempotent: true,
} as const;

export const ACTIONS = {
  "pause-limit": {
    label: "Pause",
    ...target,
    does: "Pauses a key of a limit for all agents: turns that need it wait.",
  },
  "resume-limit": {
    label: "Resume",
    ...target,
    does: "Resumes a paused key of a limit for all agents.",
  },
} as const satisfies ActionCatalog;

export type Action = ActionOf<typeof ACTIONS, unknown>;
