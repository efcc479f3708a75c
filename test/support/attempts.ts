/** What adapters are given in tests of theirs. */

import type { AdapterContext, AttemptContext } from "../../src/outbox/destinations/adapter.ts";

/** A first attempt, of which nothing is stored. */
export const FIRST: AttemptContext = {
  createdAt: 0,
  isRepeated: false,
  markSending: async () => {},
};

/** The context of adapters in this Worker. */
export function contextOf(env: object, options: Partial<AdapterContext> = {}): AdapterContext {
  return {
    host: {},
    env,
    now: Date.now,
    allowPrivateAddresses: false,
    inHostContext: (work) => work(),
    objectInstance: "test",
    reportProblem: () => {},
    ...options,
  };
}
