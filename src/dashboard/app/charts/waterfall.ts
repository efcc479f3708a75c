/** The spans of a trace under each other, each with a bar for its time. */

import type { Trace, TraceSpan } from "../../../operator/protocol.ts";
import { html } from "../html.ts";
import { durationText } from "../text/times.ts";

/** Rows that are shown; the rest is counted. */
const MAX_ROWS = 200;

type Row = { readonly span: TraceSpan; readonly depth: number };

/** Children after their parents, in the order of their starts. Spans without a known parent come first. */
function rowsOf(spans: readonly TraceSpan[]): Row[] {
  const ids = new Set(spans.map(({ spanId }) => spanId));
  const children = new Map<string | undefined, TraceSpan[]>();
  for (const span of spans) {
    const parent =
      span.parentSpanId !== undefined && ids.has(span.parentSpanId) ? span.parentSpanId : undefined;
    children.set(parent, [...(children.get(parent) ?? []), span]);
  }
  const rows: Row[] = [];
  const seen = new Set<string>();
  const visit = (parent: string | undefined, depth: number) => {
    const found = (children.get(parent) ?? []).toSorted((a, b) => a.startedAt - b.startedAt);
    for (const span of found) {
      if (seen.has(span.spanId)) continue;
      seen.add(span.spanId);
      rows.push({ span, depth });
      visit(span.spanId, depth + 1);
    }
  };
  visit(undefined, 0);
  return rows;
}

export function Waterfall({ trace, now }: { trace: Trace; now: number }) {
  const rows = rowsOf(trace.spans);
  const start = Math.min(...trace.spans.map(({ startedAt }) => startedAt));
  const end = Math.max(start + 1, ...trace.spans.map(({ endedAt }) => endedAt ?? now));
  const share = (at: number) => ((at - start) / (end - start)) * 100;
  const left = rows.length - MAX_ROWS;
  return html`<table class="waterfall">
    <caption>${durationText(end - start)} in all</caption>
    <thead><tr><th>Span</th><th>Time</th><th class="bars">From start to end</th></tr></thead>
    <tbody>
      ${rows.slice(0, MAX_ROWS).map(({ span, depth }) => {
        const { kind, name, status, startedAt, endedAt, error } = span;
        const last = endedAt ?? now;
        const x = share(startedAt);
        const width = Math.max(0.5, share(last) - x);
        const time = `${durationText(last - startedAt)}${endedAt === undefined ? ", running" : ""}`;
        return html`<tr key=${span.spanId} class=${status === "error" ? "failed" : ""}>
          <th scope="row" title=${detailsOf(span)}>
            <span class=${`indent d${Math.min(depth, 8)}`}></span><span class="kind">${kind}</span> ${name.replace(/^perdure\.\w+ ?/, "")}
            ${error === undefined ? null : html`<span class="problem">${error}</span>`}
          </th>
          <td>${time}</td>
          <td class="bars"><svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
            <rect class=${`bar ${kind} ${endedAt === undefined ? "running" : ""} ${status}`} x=${Math.min(x, 99.5)} y="1" width=${width} height="8" />
          </svg></td>
        </tr>`;
      })}
    </tbody>
  </table>
  ${left > 0 ? html`<p class="quiet">${left} more spans are not shown.</p>` : null}`;
}

function detailsOf({ attributes }: TraceSpan): string {
  return Object.entries(attributes)
    .map(([name, value]) => `${name}: ${value}`)
    .join("\n");
}
