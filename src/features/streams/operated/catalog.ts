/** Followers for operators, as data. */

import type { FindingCatalog } from "../../../engine/operated/catalog.ts";

export const FINDINGS = { "followers-refused": null } as const satisfies FindingCatalog;
