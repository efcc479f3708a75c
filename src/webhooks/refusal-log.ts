/** One line for each refused request, within a rate. Without bodies and secrets. */

const PERIOD_MS = 60_000;
/** Of one source and status. */
const LINES_PER_PERIOD = 10;
const MAX_MESSAGE = 300;

export type RefusalLine = {
  readonly source: string;
  readonly status: number;
  readonly message: string;
  /** Of the delivery. Left out before the signature is verified. */
  readonly id?: string | undefined;
};

type Period = { start: number; lines: number; suppressed: number };

/** At most ten lines a minute for each source and status. The first line of the next minute says how many were left out. */
export class RefusalLog {
  readonly #periods = new Map<string, Period>();

  write({ source, status, message, id }: RefusalLine, now: number): void {
    const key = `${source} ${status}`;
    let period = this.#periods.get(key);
    const suppressed = period?.suppressed ?? 0;
    if (!period || Math.abs(now - period.start) >= PERIOD_MS) {
      period = { start: now, lines: 0, suppressed: 0 };
      this.#periods.set(key, period);
    }
    if (period.lines >= LINES_PER_PERIOD) {
      period.suppressed++;
      return;
    }
    const isFirst = period.lines++ === 0;
    const line = {
      perdure: "webhook:refused",
      message: message.slice(0, MAX_MESSAGE).toWellFormed(),
      source,
      status,
      id,
      ...(isFirst && suppressed > 0 && { suppressed }),
    };
    console.warn(JSON.stringify(line));
  }
}
