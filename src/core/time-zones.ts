/** Names of time zones, as the platform knows them. */

/** How to write a zone, for messages about an invalid one. */
export const ZONE_FORMS =
  'an IANA time zone such as "Europe/London", or an offset such as "+02:00"';

/** The platform's own name for a zone, the same for all its aliases; undefined for an unknown zone. */
export function canonicalZone(name: string): string | undefined {
  try {
    return new Intl.DateTimeFormat("en-US", { timeZone: name }).resolvedOptions().timeZone;
  } catch {
    return undefined;
  }
}
