/** The spans of a trace under each other, each with a bar for its time. Long waits are cut out of the bars. */

import type { Trace, TraceSpan } from "../../../protocol.ts";
import { elapsedText, rowsOf } from "../../../waterfall.ts";
import { html } from "../html.ts";
import { Head, Value } from "../parts.ts";
import { signal } from "../signals.ts";

/** Rows that are shown; the rest is counted. */
const MAX_ROWS = 200;
/** Kinds in which something is done. The others contain these, or wait. */
const WORK = /^(attempt|model|tool)$/;
/** Width of a wait that is cut, of all that is not. */
const CUT = 0.08;

/** A period, in epoch milliseconds. */
type Period = readonly [from: number, to: number];

/** The id of the span whose period and attributes are shown. */
const zoomed = signal("");

/** The waits that take longer than all the work: their length would hide it. */
function waitsIn(periods: readonly Period[], [start, end]: Period): Period[] {
  const waits: Period[] = [];
  let work = 0;
  let at = start;
  for (const [from, to] of [...periods.toSorted(([a], [b]) => a - b), [end, end] as const]) {
    if (from > at) waits.push([at, from]);
    work += Math.max(0, to - Math.max(at, from));
    at = Math.max(at, to);
  }
  return work > 0 ? waits.filter(([from, to]) => to - from > Math.max(work, 1_000)) : [];
}

const lengthOf = (periods: readonly Period[]) =>
  periods.reduce((sum, [from, to]) => sum + to - from, 0);

export function Waterfall({ trace, now }: { trace: Trace; now: number }) {
  const { spans } = trace;
  const periodOf = ({ startedAt, endedAt = now }: TraceSpan): Period => [startedAt, endedAt];
  const rows = rowsOf(spans);
  const start = Math.min(...spans.map(({ startedAt }) => startedAt));
  const end = Math.max(start + 1, ...spans.map((span) => periodOf(span)[1]));
  const waits = waitsIn(spans.filter(({ kind }) => WORK.test(kind)).map(periodOf), [start, end]);
  const cut = CUT * (end - start - lengthOf(waits));
  /** Milliseconds from the start, without what is cut. */
  const offset = (at: number) =>
    waits.reduce((sum, [from, to]) => {
      const passed = Math.max(0, Math.min(at, to) - from);
      return sum - passed + (cut * passed) / (to - from);
    }, at - start);
  const open = spans.find(({ spanId }) => spanId === zoomed.value);
  const [first, last] = (open ? periodOf(open) : [start, end]).map(offset) as [number, number];
  const share = (at: number) =>
    Math.max(0, Math.min(100, ((offset(at) - first) / Math.max(1, last - first)) * 100));
  const bar = ([from, to]: Period, kind: string, least = 0.5) => {
    const x = Math.min(share(from), 100 - least);
    return html`<rect class=${kind} x=${x} y="1" width=${Math.max(least, share(to) - x)} height="8" />`;
  };
  const left = rows.length - MAX_ROWS;
  return html`<table class="waterfall">
    <caption>${elapsedText(end - start)} in all${waits.length > 0 && `, of which ${elapsedText(lengthOf(waits))} of waiting are cut out (┆)`}${open && html` <button onClick=${() => (zoomed.value = "")}>Show all</button>`}</caption>
    <${Head} of=${["Span", "Start", "Time", "From start to end"]} />
    <tbody>
      ${rows.slice(0, MAX_ROWS).map(({ span, depth }) => {
        const { kind, name, status, startedAt, endedAt, error, attributes, spanId } = span;
        const isOpen = span === open;
        return html`<tr key=${spanId} class=${status === "error" ? "failed" : ""}>
          <th scope="row" style=${`padding-inline-start:${Math.min(depth, 8) * 0.7}rem`}>
            <button class="link" aria-pressed=${isOpen} onClick=${() => (zoomed.value = isOpen ? "" : spanId)}>${kind} ${name.replace(/^perdure\.\w+ ?/, "")}</button>
            ${endedAt === undefined && html`<span class="quiet"> running</span>`}${tokensOf(attributes)}
            ${error !== undefined && html`<span class="problem">${error}</span>`}
          </th>
          <td>+${elapsedText(startedAt - start)}</td>
          <td>${elapsedText((endedAt ?? now) - startedAt)}</td>
          <td class="bars"><svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
            ${bar(periodOf(span), `bar ${kind} ${endedAt === undefined ? "running" : ""} ${status}`)}
            ${waits.filter(([from, to]) => share(to) > share(from)).map((wait) => bar(wait, "cut", 0))}
          </svg></td>
        </tr>
        ${isOpen && html`<tr><td colspan="4"><${Value} of=${attributes} /></td></tr>`}`;
      })}
    </tbody>
  </table>
  ${left > 0 && html`<p class="quiet">${left} more spans are not shown.</p>`}`;
}

function tokensOf(attributes: TraceSpan["attributes"]) {
  const [input, output] = ["input", "output"].map((of) => attributes[`gen_ai.usage.${of}_tokens`]);
  const cost = attributes["gen_ai.usage.cost"];
  return html`<span class="quiet">${input !== undefined && ` ${input} → ${output ?? "?"} tokens`}${cost !== undefined && ` $${cost}`}</span>`;
}
