/** What the outbox sends to a collector about a submission or a workflow, built from its rows when it is sent. */

import type { OperatedAgent } from "../operated.ts";
import { submissionTrace, workflowTrace } from "../trace/trace.ts";
import type { TelemetryEvent, TelemetryOf } from "./collector.ts";
import { metricsBody, traceBody } from "./encode.ts";

export async function telemetryOf(
  operated: OperatedAgent,
  event: TelemetryEvent,
): ReturnType<TelemetryOf> {
  // Other steps of the same workflow are in the telemetry of their own submissions.
  const trace =
    "workflowId" in event
      ? await workflowTrace(operated, event.workflowId)
      : submissionTrace(operated, event.submissionId, "submission");
  if (!trace) return null;
  const [{ className, name } = { className: "", name: "" }] = operated.host.selfPath.slice(-1);
  const resource = { "service.name": className, "service.instance.id": name };
  const encode = event.signal === "traces" ? traceBody : metricsBody;
  const isComplete = trace.spans.every(
    ({ kind, endedAt }) => kind !== "delivery" || endedAt !== undefined,
  );
  return { body: encode(trace, resource, operated.clock.now()), isComplete };
}
