/** An agent with a limit whose keys its tests choose, as a root and as a sub-agent. */

import { limit, limits } from "../../../src/features/limits/index.ts";
import { DurableAgent } from "../../../src/hosts/agent/index.ts";
import { ScriptedModel } from "../../../src/testing/index.ts";

/** The name of the limit, and so of its keeper. */
export const TREE = "tree";

export class LimitedAgent extends DurableAgent<Cloudflare.Env> {
  static override readonly features = [
    limits({
      limits: [
        limit(TREE, {
          key: ({ metadata }) => metadata.tree as string,
          requests: "1000 per minute",
          concurrency: 3,
        }),
      ],
    }),
  ];

  override getModel() {
    return new ScriptedModel();
  }
}
