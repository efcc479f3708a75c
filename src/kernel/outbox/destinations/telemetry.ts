/** What the outbox knows of telemetry. `traces()` of `perdure/operator` installs the kind of destination. */

import type { WithPolicy } from "./adapter.ts";

/** An OpenTelemetry collector. */
export type OtlpDestination = WithPolicy & {
  readonly kind: "otlp";
  /** The base address: `/v1/traces` and `/v1/metrics` are added. */
  readonly url: string;
  /** The name of the secret with its headers, as in `OTEL_EXPORTER_OTLP_HEADERS`: `api-key=...,tenant=...`. */
  readonly headers?: string;
};

/** The error of telemetry that waits for deliveries. It is no failure of the collector. */
export const STILL_WAITING = "Deliveries of the submission's end still wait";
