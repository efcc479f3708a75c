/** Names of time zones: whether one exists, how it is spelled, and which are near a mistyped one. Computes no offsets. */

import { BoundedCache } from "../../core/bounded-cache.ts";
import { canonicalZone } from "../../core/time-zones.ts";
import { editDistance } from "./nearest.ts";

const NAME = /^[a-z][a-z0-9_+\-/]*$/i;
/** `+02:00`, `+0200` or `+02`. */
const OFFSET = /^[+-]\d\d(:?\d\d)?$/;

/**
 * Names that the platform knows and does not list, because it lists another name for the same zone. From the file
 * `backward` of https://www.iana.org/time-zones and https://cldr.unicode.org.
 */
const MORE_NAMES = [
  ..."UTC GMT Etc/UTC Etc/GMT Africa/Asmara America/Argentina/Buenos_Aires".split(" "),
  ..."America/Argentina/Catamarca America/Argentina/Cordoba America/Argentina/Jujuy".split(" "),
  ..."America/Argentina/Mendoza America/Atikokan America/Indiana/Indianapolis".split(" "),
  ..."America/Kentucky/Louisville America/Nuuk Asia/Calcutta Asia/Ho_Chi_Minh".split(" "),
  ..."Asia/Kathmandu Asia/Kolkata Asia/Yangon Atlantic/Faroe Europe/Kiev Europe/Kyiv".split(" "),
  ..."Pacific/Chuuk Pacific/Kanton Pacific/Pohnpei".split(" "),
  ..."US/Alaska US/Arizona US/Central US/Eastern US/Hawaii US/Mountain US/Pacific".split(" "),
];

/** A name in its usual spelling, and the platform's one name for it and all its aliases. */
type Zone = { readonly name: string; readonly canonical: string };

/** There are about 600 names; unknown ones are kept too. */
const found = new BoundedCache<Partial<Zone>>(1_000);
const guessed = new BoundedCache<readonly string[]>(50);
let spellings: ReadonlyMap<string, string> | undefined;

/** The name of a zone in its usual case (an alias stays an alias), an offset as `+02:00`; undefined for an unknown zone. */
export function zoneOf(name: string): string | undefined {
  return zone(name).name;
}

/** Whether two names are of one zone, as `US/Pacific` and `America/Los_Angeles`. */
export function isSameZone(one: string, other: string): boolean {
  return one === other || zone(one).canonical === zone(other).canonical;
}

function zone(name: string) {
  return found.get(name, () => {
    const isOffset = OFFSET.test(name);
    const canonical = isOffset || NAME.test(name) ? canonicalZone(name) : undefined;
    if (canonical === undefined) return {};
    const spelling = isOffset ? canonical : (zoneSpellings().get(name.toLowerCase()) ?? name);
    return { name: spelling, canonical };
  });
}

/** Up to three names that look like the written one, or whose city does. */
export function nearestZones(written: string): readonly string[] {
  const wanted = written.toLowerCase();
  return guessed.get(wanted, () => {
    const names = [...zoneSpellings()].map(([lower, name]) => {
      const city = lower.slice(lower.lastIndexOf("/") + 1);
      const distance = Math.min(editDistance(wanted, lower), editDistance(wanted, city) + 0.5);
      return { name, distance };
    });
    const near = names.filter(({ distance }) => Number.isFinite(distance));
    near.sort((one, other) => one.distance - other.distance);
    return near.slice(0, 3).map(({ name }) => name);
  });
}

/** By the name in lower case. Made at its first use: a worker without invalid zones never needs it. */
function zoneSpellings(): ReadonlyMap<string, string> {
  spellings ??= new Map(
    [...Intl.supportedValuesOf("timeZone"), ...MORE_NAMES].map((name) => [
      name.toLowerCase(),
      name,
    ]),
  );
  return spellings;
}
