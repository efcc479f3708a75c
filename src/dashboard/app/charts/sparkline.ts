/** Bars per hour: completed below, failed on top. */

import { html } from "../html.ts";

export function Sparkline({
  completed,
  failed,
}: {
  completed: readonly number[];
  failed: readonly number[];
}) {
  const most = Math.max(1, ...completed.map((count, at) => count + (failed[at] ?? 0)));
  const width = 100 / Math.max(1, completed.length);
  const total = completed.reduce((sum, count) => sum + count, 0);
  const errors = failed.reduce((sum, count) => sum + count, 0);
  const label = `Last ${completed.length} hours: ${total} completed, ${errors} failed`;
  return html`<svg class="spark" viewBox="0 0 100 24" preserveAspectRatio="none" role="img" aria-label=${label}>
    <title>${label}</title>
    ${completed.map((count, at) => {
      const good = (count / most) * 24;
      const bad = ((failed[at] ?? 0) / most) * 24;
      const x = at * width;
      return html`<g>
        <rect class="good" x=${x} y=${24 - good} width=${width * 0.8} height=${good} />
        <rect class="bad" x=${x} y=${24 - good - bad} width=${width * 0.8} height=${bad} />
      </g>`;
    })}
  </svg>`;
}
