/**
 * A trace as OTLP in JSON, and its metrics.
 * https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding
 */

import type { Json } from "../../core/json.ts";
import type { Trace, TraceSpan } from "../protocol.ts";

/** Who has done it: attributes of the resource. */
export type Resource = { readonly [name: string]: string };

type Attributes = Readonly<Record<string, string | number | boolean>>;

/** https://github.com/open-telemetry/opentelemetry-proto/blob/main/opentelemetry/proto/trace/v1/trace.proto */
const KIND = { internal: 1, client: 3, producer: 4 } as const;
const KINDS: Readonly<Record<TraceSpan["kind"], number>> = {
  workflow: KIND.internal,
  step: KIND.internal,
  submission: KIND.internal,
  wait: KIND.internal,
  attempt: KIND.internal,
  model: KIND.client,
  tool: KIND.internal,
  delivery: KIND.producer,
};
const STATUS = { unset: 0, ok: 1, error: 2 } as const;
const SCOPE = { name: "perdure" };

/** @param now ends the spans that have not ended */
export function traceBody({ traceId, spans }: Trace, resource: Resource, now: number): Json {
  const encoded = spans.map((span) => spanJson(traceId, span, now));
  return {
    resourceSpans: [
      {
        resource: { attributes: attributesJson(resource) },
        scopeSpans: [{ scope: SCOPE, spans: encoded }],
      },
    ],
  };
}

function spanJson(traceId: string, span: TraceSpan, now: number): Json {
  const { spanId, parentSpanId, name, kind, startedAt, endedAt, status, error, links = [] } = span;
  const isOpen = endedAt === undefined;
  const attributes = { ...span.attributes, ...(isOpen && { "perdure.span.open": true }) };
  return {
    traceId,
    spanId,
    ...(parentSpanId !== undefined && { parentSpanId }),
    name,
    kind: KINDS[kind],
    startTimeUnixNano: nanoseconds(startedAt),
    endTimeUnixNano: nanoseconds(Math.max(startedAt, endedAt ?? now)),
    attributes: attributesJson(attributes),
    status: { code: STATUS[status], ...(error !== undefined && { message: error }) },
    ...(links.length > 0 && { links: links.map((link) => ({ ...link })) }),
  };
}

/** As a text, because JSON's numbers are not exact at this size. */
function nanoseconds(ms: number): string {
  return (BigInt(Math.round(ms * 1_000)) * 1_000n).toString();
}

function attributesJson(attributes: Attributes): Json {
  return Object.entries(attributes).map(([key, value]) => ({ key, value: valueJson(value) }));
}

function valueJson(value: string | number | boolean): Json {
  if (typeof value === "string") return { stringValue: value.toWellFormed() };
  if (typeof value === "boolean") return { boolValue: value };
  return Number.isSafeInteger(value) ? { intValue: String(value) } : { doubleValue: value };
}

/** https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-metrics/ */
const SECONDS = Array.from({ length: 14 }, (_, power) => 0.01 * 2 ** power);
const TOKENS = Array.from({ length: 14 }, (_, power) => 4 ** power);
const LONG_SECONDS = [0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3_600, 14_400, 86_400];
const DELTA = 1;

type Point = { readonly value: number; readonly attributes: Attributes };

/** Histograms of one submission, as the change since the one before: nothing has to be counted between two of them. */
export function metricsBody({ spans }: Trace, resource: Resource, now: number): Json {
  const submission = spans.find(({ kind }) => kind === "submission");
  const start = submission?.startedAt ?? now;
  const end = submission?.endedAt ?? now;
  const calls = spans.filter(({ kind }) => kind === "model");
  const histogram = (
    name: string,
    unit: string,
    bounds: readonly number[],
    points: readonly Point[],
  ) =>
    points.length === 0
      ? []
      : [
          {
            name,
            unit,
            histogram: {
              aggregationTemporality: DELTA,
              dataPoints: pointsJson(points, bounds, start, end),
            },
          },
        ];
  const metrics = [
    ...histogram("gen_ai.client.operation.duration", "s", SECONDS, calls.flatMap(durationPoint)),
    ...histogram("gen_ai.client.token.usage", "{token}", TOKENS, calls.flatMap(tokenPoints)),
    ...histogram(
      "perdure.submission.duration",
      "s",
      LONG_SECONDS,
      submission ? submissionPoint(submission) : [],
    ),
    ...histogram("perdure.submission.wait", "s", LONG_SECONDS, waitPoint(spans)),
    ...histogram("perdure.limit.wait", "s", LONG_SECONDS, spans.flatMap(limitPoint)),
  ];
  return {
    resourceMetrics: [
      {
        resource: { attributes: attributesJson(resource) },
        scopeMetrics: [{ scope: SCOPE, metrics }],
      },
    ],
  };
}

/** Attributes with few values, so that a collector keeps few series. */
function modelAttributes({ attributes }: TraceSpan): Attributes {
  const names = [
    "gen_ai.operation.name",
    "gen_ai.request.model",
    "gen_ai.provider.name",
    "error.type",
  ];
  const known = names.flatMap((name) =>
    attributes[name] === undefined ? [] : [[name, attributes[name]]],
  );
  return Object.fromEntries(known);
}

function durationPoint(span: TraceSpan): Point[] {
  if (span.endedAt === undefined) return [];
  return [{ value: (span.endedAt - span.startedAt) / 1_000, attributes: modelAttributes(span) }];
}

function tokenPoints(span: TraceSpan): Point[] {
  return (["input", "output"] as const).flatMap((type) => {
    const value = span.attributes[`gen_ai.usage.${type}_tokens`];
    if (typeof value !== "number") return [];
    return [{ value, attributes: { ...modelAttributes(span), "gen_ai.token.type": type } }];
  });
}

function submissionPoint({ startedAt, endedAt, attributes }: TraceSpan): Point[] {
  if (endedAt === undefined) return [];
  const status = attributes["perdure.submission.status"];
  const known = status === undefined ? {} : { "perdure.submission.status": status };
  return [{ value: (endedAt - startedAt) / 1_000, attributes: known }];
}

/** How long the submission waited before its first attempt. */
function waitPoint(spans: readonly TraceSpan[]): Point[] {
  const [first] = spans
    .filter(({ kind }) => kind === "wait")
    .sort((a, b) => a.startedAt - b.startedAt);
  if (first?.endedAt === undefined) return [];
  return [{ value: (first.endedAt - first.startedAt) / 1_000, attributes: {} }];
}

/** How long it waited for a limit. */
function limitPoint({ attributes }: TraceSpan): Point[] {
  const { "perdure.limit.wait_ms": ms, "perdure.limit.name": name = "" } = attributes;
  return typeof ms === "number"
    ? [{ value: ms / 1_000, attributes: { "perdure.limit.name": name } }]
    : [];
}

/** One data point for each set of attributes. */
function pointsJson(
  points: readonly Point[],
  bounds: readonly number[],
  start: number,
  end: number,
): Json {
  const series = Map.groupBy(points, ({ attributes }) =>
    JSON.stringify(Object.entries(attributes).sort()),
  );
  return [...series.values()].map((group) => {
    const counts = new Array<number>(bounds.length + 1).fill(0);
    for (const { value } of group) {
      const found = bounds.findIndex((bound) => value <= bound);
      const at = found < 0 ? bounds.length : found;
      counts[at] = (counts[at] ?? 0) + 1;
    }
    const values = group.map(({ value }) => value);
    return {
      startTimeUnixNano: nanoseconds(start),
      timeUnixNano: nanoseconds(Math.max(start, end)),
      count: String(group.length),
      sum: values.reduce((sum, value) => sum + value, 0),
      min: Math.min(...values),
      max: Math.max(...values),
      bucketCounts: counts.map(String),
      explicitBounds: [...bounds],
      attributes: attributesJson(group[0]?.attributes ?? {}),
    };
  });
}
