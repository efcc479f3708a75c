/** The bindings of `wrangler.jsonc`. */

import type { BuiltInBench } from "./built-in.ts";
import type { TurnObject } from "./limited-turns.ts";
import type { LoadedLedger } from "./loaded-ledger.ts";
import type { LoadedScheduler } from "./loaded-scheduler.ts";
import type { PerdureAgent } from "./perdure-agent.ts";
import type { PlainAgent } from "./plain-agent.ts";
import type { Echo } from "./workflows.ts";

export interface Env extends Cloudflare.Env {
  readonly PerdureAgent: DurableObjectNamespace<PerdureAgent>;
  readonly BuiltInBench: DurableObjectNamespace<BuiltInBench>;
  readonly PlainAgent: DurableObjectNamespace<PlainAgent>;
  readonly LoadedLedger: DurableObjectNamespace<LoadedLedger>;
  readonly LoadedScheduler: DurableObjectNamespace<LoadedScheduler>;
  readonly TurnObject: DurableObjectNamespace<TurnObject>;
  readonly Echo: DurableObjectNamespace<Echo>;
  readonly PERDURE_WORKFLOW: Workflow;
  readonly ENGINE_WORKFLOW: Workflow;
}
