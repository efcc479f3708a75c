/** What the page and the command line show of a trace: its spans in order, and how long they took. */

import type { TraceSpan } from "./protocol.ts";

export type SpanRow = { readonly span: TraceSpan; readonly depth: number };

/** Children after their parents, in the order of their starts. Spans without a known parent come first. */
export function rowsOf(spans: readonly TraceSpan[]): SpanRow[] {
  const ids = new Set(spans.map(({ spanId }) => spanId));
  const children = Map.groupBy(spans, ({ parentSpanId = "" }) =>
    ids.has(parentSpanId) ? parentSpanId : "",
  );
  const rows: SpanRow[] = [];
  const seen = new Set<string>();
  const visit = (parent: string, depth: number) => {
    const found = (children.get(parent) ?? []).toSorted((a, b) => a.startedAt - b.startedAt);
    for (const span of found) {
      if (seen.has(span.spanId)) continue;
      seen.add(span.spanId);
      rows.push({ span, depth });
      visit(span.spanId, depth + 1);
    }
  };
  visit("", 0);
  return rows;
}

/** E.g. `340 ms`, `2.4 s`, `3 min 5 s`, `2 h 10 min`, `1 d 2 h`. */
export function elapsedText(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 60) return `${minutes} min ${Math.floor((ms % 60_000) / 1_000)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 24
    ? `${hours} h ${minutes % 60} min`
    : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}
