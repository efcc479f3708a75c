/** What the report finds of no module, as data. */

import type { FindingCatalog } from "../../core/operated/catalog.ts";

export const FINDINGS = {
  "mcp-server-fails": "succeeds",
  "work-without-alarm": "onTime",
  "alarm-without-work": "onTime",
  // Asked by the API
  "agent-unreachable": "starts",
  // A question that the report cannot answer has no verdict.
  "report-incomplete": null,
} as const satisfies FindingCatalog;
