/** One line for each refused request, within a rate. Without bodies and secrets. */

import { thrownText } from "../offer.ts";
import { LINES_PER_PERIOD, MAX_REASON, PERIOD_MS } from "./limits.ts";

export type RefusalLine = {
  readonly source: string;
  readonly status: number;
  /** A text, or what was thrown. */
  readonly reason: unknown;
  /** Of the arrival. Left out before the signature is verified. */
  readonly id: string | undefined;
};

/** The start of the period and its lines, by source and status. */
const periods = new Map<string, readonly [start: number, lines: number]>();

/** Logs at most ten lines a minute for each source and status. A later line says how many were left out. */
export function logRefusal(line: RefusalLine, now: number): void {
  const key = `${line.source} ${line.status}`;
  const [start, lines] = periods.get(key) ?? [-Infinity, 0];
  const isNew = Math.abs(now - start) >= PERIOD_MS;
  periods.set(key, isNew ? [now, 1] : [start, lines + 1]);
  if (!isNew && lines >= LINES_PER_PERIOD) return;
  const suppressed = Math.max(0, lines - LINES_PER_PERIOD) || undefined;
  const reason = thrownText(line.reason).slice(0, MAX_REASON);
  console.warn(JSON.stringify({ perdure: "webhook:refused", ...line, reason, suppressed }));
}
