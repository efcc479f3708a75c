/** How far a zone's clock is from UTC, as the platform knows it. */

/** How to write a zone, for messages about an invalid one. */
export const ZONE_FORMS =
  'an IANA time zone such as "Europe/London", or an offset such as "+02:00"';

/** `GMT`, `GMT+05:30`, or with seconds for the local mean times before zones were introduced. */
const OFFSET = /^GMT(?:([+-])(\d\d):(\d\d)(?::(\d\d))?)?$/;

/**
 * Looks up the offsets of a zone: milliseconds that its clock is ahead of UTC, NaN for an instant beyond what a `Date`
 * can hold. A call takes some microseconds, so callers keep what they have looked up.
 *
 * @param timezone a name that {@link canonicalZone} knows
 */
export function offsetsOf(timezone: string): (instant: number) => number {
  const format = new Intl.DateTimeFormat("en-US", {
    timeZone: timezone,
    timeZoneName: "longOffset",
  });
  return (instant) => {
    if (Number.isNaN(new Date(instant).getTime())) return Number.NaN;
    const { value = "" } =
      format.formatToParts(instant).find(({ type }) => type === "timeZoneName") ?? {};
    const found = OFFSET.exec(value);
    if (!found)
      throw new Error(`The platform has the offset ${JSON.stringify(value)} of ${timezone}`);
    const [, sign, hours = 0, minutes = 0, seconds = 0] = found;
    const ahead = (Number(hours) * 60 + Number(minutes)) * 60 + Number(seconds);
    return (sign === "-" ? -ahead : ahead) * 1_000;
  };
}

/** The platform's own name for a zone, the same for all its aliases; undefined for an unknown zone. */
export function canonicalZone(name: string): string | undefined {
  try {
    return new Intl.DateTimeFormat("en-US", { timeZone: name }).resolvedOptions().timeZone;
  } catch {
    return undefined;
  }
}
