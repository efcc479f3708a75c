/** Followers for operators, where the agent runs. */

import { operatedPart } from "../../../engine/operated/part.ts";
import { at, plural } from "../../../engine/operated/text.ts";
import type { Kernel } from "../../../workflow/agent/kernel.ts";
import type { Followers } from "../followers.ts";

/** Later, readers may have left. */
const REFUSED_MS = 3_600_000;

type Operated = { readonly capabilities: Pick<Kernel, "features"> };

export const PARTS = {
  followers: operatedPart({
    answers: [],
    facts: async ({ capabilities: { features } }: Operated) =>
      features.has("followers")
        ? (features.get("followers", "healthReport()") as Followers)
        : undefined,
    rules: [
      ({ refused, most }, now) => {
        if (refused.count === 0 || now - refused.at >= REFUSED_MS) return [];
        const { count } = refused;
        return [
          {
            code: "followers-refused",
            severity: "warning",
            title: `${plural(count, "follower")} refused since the object started, the latest at ${at(refused.at, now)}: ${plural(most, "stream")} were open.`,
            evidence: { count, since: refused.at, ids: [] },
            cause:
              "Readers do not close their streams, or more of them follow this agent than followers({ max }) allows.",
            fix: {
              text: "Close streams without a reader, or raise max of followers().",
            },
            link: { view: "overview" },
          } as const,
        ];
      },
    ],
  }),
};
