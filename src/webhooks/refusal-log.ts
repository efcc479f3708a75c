/** One line for each refused request, within a rate. Without bodies and secrets. */

const PERIOD_MS = 60_000;
/** Of one source and status. */
const LINES_PER_PERIOD = 10;
const MAX_REASON = 300;

export type RefusalLine = {
  readonly source: string;
  readonly status: number;
  readonly reason: string;
  /** Of the delivery. Left out before the signature is verified. */
  readonly id: string | undefined;
};

const periods = new Map<string, { start: number; lines: number }>();

/** Logs at most ten lines a minute for each source and status. A later line says how many were left out. */
export function logRefusal(line: RefusalLine, now: number): void {
  const key = `${line.source} ${line.status}`;
  let period = periods.get(key);
  let suppressed: number | undefined;
  if (!period || Math.abs(now - period.start) >= PERIOD_MS) {
    const left = (period?.lines ?? 0) - LINES_PER_PERIOD;
    if (left > 0) suppressed = left;
    period = { start: now, lines: 0 };
    periods.set(key, period);
  }
  if (++period.lines > LINES_PER_PERIOD) return;
  const reason = line.reason.slice(0, MAX_REASON);
  console.warn(JSON.stringify({ perdure: "webhook:refused", ...line, reason, suppressed }));
}
