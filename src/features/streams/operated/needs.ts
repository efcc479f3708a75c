/** What needs followers(), for `perdure doctor`. */

import type { Needs } from "../../../engine/operated/needs.ts";

export const NEEDS = {
  followers: { from: "perdure/streams", mounts: [["perdure/streams", "streams"]] },
} as const satisfies Needs;
