/** The next occurrences of scheduled tasks on one line each, with the clock changes of their zones. */

import type { ScheduledTaskInfo } from "../../../../scheduler/types.ts";
import { html } from "../html.ts";
import { changeText, clockChanges } from "../text/clock.ts";
import { localText } from "../text/times.ts";

const DAY = 86_400_000;
/** Shown when the tasks have no later occurrence. */
const SHORTEST = DAY;
const LONGEST = 30 * DAY;

export function Timeline({
  tasks,
  now,
  open,
}: {
  tasks: readonly ScheduledTaskInfo[];
  now: number;
  open: (taskId: string) => void;
}) {
  const last = Math.max(now + SHORTEST, ...tasks.flatMap(({ nextOccurrences }) => nextOccurrences));
  const end = Math.min(last, now + LONGEST);
  const share = (at: number) => ((at - now) / (end - now)) * 100;
  const zones = [
    ...new Set(tasks.flatMap(({ timezone }) => (timezone === undefined ? [] : [timezone]))),
  ];
  const changes = zones.flatMap((zone) => clockChanges(zone, now, end));
  return html`<figure class="timeline">
    <figcaption>Next runs until ${localText(end)}</figcaption>
    ${tasks.map(({ taskId, state, timezone, nextOccurrences }) => {
      const shown = nextOccurrences.filter((at) => at <= end);
      const label = `${taskId}: ${shown.length > 0 ? shown.map(localText).join(", ") : state}`;
      return html`<div class="lane" key=${taskId}>
        <button class="link" onClick=${() => open(taskId)}>${taskId}</button>
        <svg viewBox="0 0 100 10" preserveAspectRatio="none" role="img" aria-label=${label}>
          <line x1="0" x2="100" y1="5" y2="5" />
          ${changes
            .filter((change) => change.timezone === timezone)
            .map(
              (change) =>
                html`<rect class=${change.shift > 0 ? "gap" : "fold"} x=${share(change.at) - 0.4} y="0" width="0.8" height="10" />`,
            )}
          ${shown.map((at) => html`<rect class="tick" x=${share(at) - 0.2} y="2" width="0.4" height="6"><title>${localText(at)}</title></rect>`)}
        </svg>
      </div>`;
    })}
    ${changes.map((change) => html`<p class="quiet" key=${change.timezone + change.at}>${localText(change.at)}: ${changeText(change)}</p>`)}
  </figure>`;
}
