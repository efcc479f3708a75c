/**
 * Trace context by W3C: `traceparent` headers, and ids that are derived from names, so that each build of a trace has the same.
 * https://www.w3.org/TR/trace-context-2/#traceparent-header
 */

import { createHash } from "node:crypto";

/** The fields of a `traceparent` header. */
export type TraceContext = {
  /** 32 hexadecimal digits. */
  readonly traceId: string;
  /** The caller's span, 16 hexadecimal digits. */
  readonly spanId: string;
  /** Bit 0: the caller samples the trace. Bit 1: its id is random. */
  readonly flags: number;
};

/** How an error names the form. */
export const TRACEPARENT_FORM =
  'a W3C traceparent such as "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"';

const FORM = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/s;
const KNOWN_FLAGS = 0b11;
const SAMPLED = 0b01;

/** Reads a `traceparent`; undefined for an invalid one. Of a later version the fields of version 00 are read, as the standard says. */
export function parseTraceparent(text: unknown): TraceContext | undefined {
  if (typeof text !== "string") return undefined;
  const [, version, traceId = "", spanId = "", flags = "", rest] = FORM.exec(text) ?? [];
  if (version === undefined || version === "ff") return undefined;
  if (version === "00" && rest !== undefined) return undefined;
  if (/^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined;
  return { traceId, spanId, flags: Number.parseInt(flags, 16) & KNOWN_FLAGS };
}

/** The header, as version 00. */
export function traceparentOf({ traceId, spanId, flags }: TraceContext): string {
  return `00-${traceId}-${spanId}-${flags.toString(16).padStart(2, "0")}`;
}

/** The trace of what a name stands for. It is sampled. */
export function traceOf(name: string): Pick<TraceContext, "traceId" | "flags"> {
  return { traceId: hex(name, 32), flags: SAMPLED };
}

/** The span of a row in a trace. */
export function spanIdOf(traceId: string, key: string): string {
  return hex(`${traceId}:${key}`, 16);
}

/** The key of a delivery's span. */
export function deliveryKey(deliveryId: string): string {
  return `delivery:${deliveryId}`;
}

function hex(text: string, digits: number): string {
  return createHash("sha256").update(text).digest("hex").slice(0, digits);
}
