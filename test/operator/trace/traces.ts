/** Traces of the submissions of a LedgerObject, and what every trace has to be. */

import { expect } from "vitest";
import type { OperatedAgent } from "../../../src/operator/operated.ts";
import type { Trace, TraceSpan } from "../../../src/operator/protocol.ts";
import { submissionTrace } from "../../../src/operator/trace/trace.ts";
import { type Ledger, within } from "../../support/ledger.ts";

/** An agent without tracked workflows. */
const host = { getWorkflow: () => undefined } as unknown as OperatedAgent["host"];

export function traceOn(
  stub: Ledger,
  submissionId: string,
  scope?: "workflow" | "submission",
): Promise<Trace> {
  return within(stub, async ({ lifecycle }, { storage }) => {
    await lifecycle.start();
    const trace = submissionTrace({ host, storage }, submissionId, scope);
    if (!trace) throw new Error(`No trace of ${submissionId}`);
    expect(submissionTrace({ host, storage }, submissionId, scope)).toEqual(trace);
    return checked(trace);
  });
}

/** One tree, with valid ids and times. */
function checked(trace: Trace): Trace {
  expect(trace.traceId).toMatch(/^(?!0+$)[0-9a-f]{32}$/);
  const ids = new Set(trace.spans.map(({ spanId }) => spanId));
  expect(ids.size).toBe(trace.spans.length);
  expect(trace.spans.length).toBeLessThanOrEqual(1_000);
  for (const { spanId, startedAt, endedAt = startedAt } of trace.spans) {
    expect(spanId).toMatch(/^(?!0+$)[0-9a-f]{16}$/);
    expect(endedAt).toBeGreaterThanOrEqual(startedAt);
  }
  const roots = trace.spans.filter(({ parentSpanId }) => !ids.has(parentSpanId ?? ""));
  expect(roots).toHaveLength(1);
  return trace;
}

/** The tree as lines: two spaces for each level, the kind, the status, and the error. */
export function treeOf({ spans }: Trace): string[] {
  const ids = new Set(spans.map(({ spanId }) => spanId));
  const below = (parent: string | undefined, depth: number): string[] =>
    spans
      .filter(({ parentSpanId = "" }) =>
        parent === undefined ? !ids.has(parentSpanId) : parentSpanId === parent,
      )
      .flatMap((span) => [
        `${"  ".repeat(depth)}${lineOf(span)}`,
        ...below(span.spanId, depth + 1),
      ]);
  return below(undefined, 0);
}

function lineOf({ kind, status, endedAt, error }: TraceSpan): string {
  const state = endedAt === undefined ? "running" : status;
  return `${kind} ${state}${error === undefined ? "" : `: ${error}`}`;
}

export function spansOf({ spans }: Trace, kind: TraceSpan["kind"]): TraceSpan[] {
  return spans.filter((span) => span.kind === kind);
}
