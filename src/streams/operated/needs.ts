/** What needs followers(), for `perdure doctor`. */

import type { Needs } from "../../core/operated/needs.ts";

export const NEEDS = {
  followers: { from: "perdure/streams", mounts: [["perdure/streams", "streams"]] },
} as const satisfies Needs;
