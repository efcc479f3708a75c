/** Limits for operators, where the agent runs. The rules are part of the feature. */

import type { OnOne } from "../../../engine/operated/catalog.ts";
import { done } from "../../../engine/operated/effect.ts";
import type { ItemVerb, OperatedPart } from "../../../engine/operated/part.ts";
import type { Kernel } from "../../../workflow/agent/kernel.ts";
import type { LimitControls } from "../controls.ts";
import type { InstalledLimits } from "../limits.ts";
import type { ACTIONS } from "./catalog.ts";

/** The agent as these actions see it. */
type Operated = {
  readonly agent: { readonly limits: Pick<LimitControls, "list" | "pause" | "resume"> };
  readonly capabilities: Pick<Kernel, "features">;
};

type Verb<Name extends keyof typeof ACTIONS> = ItemVerb<Operated, OnOne<typeof ACTIONS, Name>>;

const verb = {
  look: async () => done(),
  after: async ({ agent }, { limit: name, key }) =>
    (await agent.limits.list({ name, key })).items[0],
} satisfies Omit<Verb<keyof typeof ACTIONS>, "act">;

const pause: Verb<"pause-limit"> = {
  ...verb,
  async act({ agent }, { limit, key }, { reason }) {
    await agent.limits.pause(limit, key, reason);
    return true;
  },
};

const resume: Verb<"resume-limit"> = {
  ...verb,
  act: ({ agent }, { limit, key }) => agent.limits.resume(limit, key),
};

export const PARTS = {
  limits: {
    answers: ["starts"],
    read: async ({ capabilities: { features } }, now) => {
      if (!features.has("limits")) return undefined;
      return (features.get("limits", "healthReport()") as InstalledLimits).health(now);
    },
    verbs: { "pause-limit": pause, "resume-limit": resume } satisfies Record<
      keyof typeof ACTIONS,
      unknown
    >,
  } satisfies OperatedPart<Operated>,
};
