/** Followers for operators, as data. */

import type { FindingCatalog } from "../../core/operated/catalog.ts";

export const FINDINGS = { "followers-refused": null } as const satisfies FindingCatalog;
