/**
 * How far a zone's clock is from UTC, as the platform knows it: the only file that asks for offsets. Nothing is kept
 * here but the formatter, which is dear to make.
 */

/** `9/30/1969, GMT-00:44:30`, with seconds where a zone had them; `GMT` alone for none. ECMA-402, `timeZoneName`. */
const OFFSET = /GMT(?:([+-])(\d\d):(\d\d)(?::(\d\d))?)?$/;

export class ZoneOffsets {
  readonly #format: Intl.DateTimeFormat;

  /** @throws RangeError when the platform knows no such zone */
  constructor(timeZone: string) {
    this.#format = new Intl.DateTimeFormat("en-US", { timeZone, timeZoneName: "longOffset" });
  }

  /** Milliseconds that the clock is ahead of UTC; NaN beyond what a `Date` can hold. */
  at(instant: number): number {
    if (Number.isNaN(new Date(instant).getTime())) return Number.NaN;
    const text = this.#format.format(instant);
    const found = OFFSET.exec(text);
    if (!found) throw new Error(`The platform gave ${JSON.stringify(text)} for a zone's offset`);
    const [, sign, hours = "0", minutes = "0", seconds = "0"] = found;
    const size = (Number(hours) * 60 + Number(minutes)) * 60 + Number(seconds);
    // Never -0, which is no other offset than 0.
    return size === 0 ? 0 : size * (sign === "-" ? -1_000 : 1_000);
  }
}

/** The platform's own name for a zone, the same for all its aliases; undefined where it knows no such zone. */
export function canonicalZone(name: string): string | undefined {
  try {
    return new Intl.DateTimeFormat("en-US", { timeZone: name }).resolvedOptions().timeZone;
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}
