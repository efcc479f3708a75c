/** The feature that sends a trace and metrics of each submission and each workflow that has ended. */

import { readOptions } from "../../core/options/option-schemas.ts";
import { objectOf } from "../../core/options/options.ts";
import type { Feature } from "../../workflow/agent/kernel.ts";
import { operatedOf } from "../operated.ts";
import { COLLECTOR, collectors, type TelemetryEvent, type TracesOptions } from "./collector.ts";
import { telemetryOf } from "./telemetry.ts";

/** A trace shows deliveries that have a row. */
const KEPT = { maxAgeMs: 3_600_000, maxCount: 1_000 };

/**
 * Sends the trace and the metrics of each submission to an OpenTelemetry collector when it ends, and those of each workflow. Two
 * rows in the outbox for each submission; they are dropped where the collector takes none.
 *
 * @param to.url the base address, e.g. `https://otlp.example.com`: `/v1/traces` and `/v1/metrics` are added
 * @param to.headers the name of the secret with its headers, in the form `key=value,key2=value2`
 * @throws InvalidOptionError
 * @example
 * export class Support extends DurableThink<Env> {
 *   static override readonly features = [traces({ url: "https://otlp.example.com", headers: "OTLP_HEADERS" })];
 * }
 */
export function traces(to: TracesOptions): Feature<"traces"> {
  const name = "options of traces()";
  const destination = readOptions(COLLECTOR, { ...objectOf(name, to), kind: "otlp" }, name);
  return {
    feature: "traces",
    install: (kernel) => {
      const { outbox } = kernel;
      const operated = operatedOf(kernel);
      outbox.install({ otlp: collectors((event) => telemetryOf(operated, event)) });
      outbox.keepDelivered(KEPT);
      outbox.atEnd = (ended) => {
        const isWorkflow = "workflowId" in ended;
        const signals = isWorkflow ? (["traces"] as const) : (["traces", "metrics"] as const);
        for (const signal of signals) {
          const event = JSON.stringify({ signal, ...ended } as TelemetryEvent);
          const id = isWorkflow ? ended.workflowId : crypto.randomUUID();
          outbox.enqueue(`otlp:${id}`, destination, event);
        }
        return signals.length;
      };
    },
  };
}
