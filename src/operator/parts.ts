/** What the modules contribute for operators where the agent runs: one import and one entry for each. `catalog.ts` has their data. */

import type { OperatedPart } from "../core/operated/part.ts";
import { inbound } from "../inbound/operated/part.ts";
import { outbox } from "../kernel/outbox/operated/part.ts";
import { submissions } from "../kernel/submissions/operated/part.ts";
import { waits } from "../kernel/waits/operated/part.ts";
import { scheduler } from "../scheduler/operated/part.ts";
import type { OperatedAgent } from "./operated.ts";
import type { Finding } from "./protocol.ts";
import { mcp } from "./report/mcp.ts";
import { workflows } from "./workflows/part.ts";

export type Part = OperatedPart<OperatedAgent, Finding>;

export const PARTS: readonly Part[] = [
  submissions,
  outbox,
  inbound,
  waits,
  scheduler,
  workflows,
  mcp,
];
