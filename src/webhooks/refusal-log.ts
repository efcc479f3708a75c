/** One line for each refused request, within a rate. Without bodies and secrets. */

import { thrownText } from "../inbound/offer.ts";

const PERIOD_MS = 60_000;
/** Of one source and status. */
const LINES_PER_PERIOD = 10;
const MAX_REASON = 300;

export type RefusalLine = {
  readonly source: string;
  readonly status: number;
  /** A text, or what was thrown. */
  readonly reason: unknown;
  /** Of the delivery. Left out before the signature is verified. */
  readonly id: string | undefined;
};

const periods = new Map<string, { start: number; lines: number }>();

/** Logs at most ten lines a minute for each source and status. A later line says how many were left out. */
export function logRefusal(line: RefusalLine, now: number): void {
  const key = `${line.source} ${line.status}`;
  const last = periods.get(key) ?? { start: -Infinity, lines: 0 };
  const isNew = Math.abs(now - last.start) >= PERIOD_MS;
  const period = isNew ? { start: now, lines: 0 } : last;
  periods.set(key, period);
  if (++period.lines > LINES_PER_PERIOD) return;
  const suppressed =
    isNew && last.lines > LINES_PER_PERIOD ? last.lines - LINES_PER_PERIOD : undefined;
  const reason = thrownText(line.reason).slice(0, MAX_REASON);
  console.warn(JSON.stringify({ perdure: "webhook:refused", ...line, reason, suppressed }));
}
