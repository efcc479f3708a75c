/** The texts of the dashboard: the filter's language, times, and clock changes. */

import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { expect, it } from "vitest";
import { changeText, clockChanges } from "../../../src/operator/dashboard/app/text/clock.ts";
import {
  complete,
  completionsOf,
  type FilterName,
  filterOf,
  parseFilter,
  printFilter,
} from "../../../src/operator/dashboard/app/text/filter.ts";
import { agoText } from "../../../src/operator/dashboard/app/text/times.ts";
import { SCRIPT, STYLE } from "../../../src/operator/dashboard/page.generated.ts";
import { elapsedText } from "../../../src/operator/waterfall.ts";
import { ANY_CHARACTER } from "../../support/characters.ts";

const NAMES: readonly FilterName[] = [
  { name: "status", parameter: "status", values: ["pending", "running", "error"] },
  { name: "thread", parameter: "thread" },
  { name: "since", parameter: "createdAfter", isTime: true },
  { name: "metadata.", parameter: "metadata" },
];
const NOW = Date.parse("2026-11-23T12:00:00Z");

it("the page's script and style have at most 25,320 bytes compressed, and 72,000 as they are, as the docs say", () => {
  expect(gzipSync(SCRIPT + STYLE, { level: 9 }).byteLength).toBeLessThanOrEqual(25_320);
  expect((SCRIPT + STYLE).length).toBeLessThanOrEqual(72_000);
});

it("any filter that is printed is read as the same filter", () => {
  const value = fc
    .string({ unit: ANY_CHARACTER, minLength: 1 })
    .filter((text) => text.isWellFormed());
  const terms = fc.uniqueArray(
    fc.oneof(
      fc.record({ name: fc.constant("thread"), value }),
      fc.record({ name: fc.constant("status"), value: fc.constantFrom("error", "error,pending") }),
      fc.record({ name: fc.constantFrom("metadata.user", "metadata.order-id"), value }),
    ),
    { selector: ({ name }) => name },
  );
  fc.assert(
    fc.property(terms, (given) => {
      expect(parseFilter(printFilter(given), NAMES)).toEqual({ terms: given });
    }),
  );
});

it("any text is a filter, or has an error that says what is wrong", () => {
  fc.assert(
    fc.property(fc.string({ unit: ANY_CHARACTER }), fc.nat(), (text, caret) => {
      const { error } = parseFilter(text, NAMES);
      if (error !== undefined) expect(error.length).toBeGreaterThan(10);
      for (const option of completionsOf(text, caret, NAMES)) {
        expect(complete(text, caret, option)).toContain(option);
      }
    }),
  );
});

it("errors name the part that is wrong, and what is valid", () => {
  const errorOf = (text: string) => parseFilter(text, NAMES).error;
  expect(errorOf("statsu:error")).toBe(
    'Unknown filter "statsu". Filters: status, thread, since, metadata.key.',
  );
  expect(errorOf("status:done")).toBe('"done" is no status. Use pending, running, error.');
  expect(errorOf("status:")).toBe('"status:" needs a value: pending, running, error.');
  expect(errorOf("since:yesterday")).toBe(
    '"yesterday" is no time. Use 2h, 7d or 2026-11-01T09:00:00Z.',
  );
  expect(errorOf("since:2026-02-30")).toBe(
    '"2026-02-30" is no time. Use 2h, 7d or 2026-11-01T09:00:00Z.',
  );
  expect(errorOf("since:2028-02-29")).toBeUndefined();
  expect(errorOf("thread:a thread:b")).toBe('"thread" is there twice.');
  expect(errorOf('thread:"a')).toBe('"thread:" needs a value.');
});

it("a filter becomes what the API takes", () => {
  const filter = (text: string) => filterOf(parseFilter(text, NAMES).terms, NAMES, NOW);
  expect(
    filter('status:error,pending thread:"my thread" since:2h metadata.user:42 metadata.vip:true'),
  ).toEqual({
    status: ["error", "pending"],
    thread: "my thread",
    createdAfter: NOW - 7_200_000,
    metadata: { user: 42, vip: true },
  });
});

it("completions are names first, then values, and go on after a comma", () => {
  expect(completionsOf("st", 2, NAMES)).toEqual(["status:"]);
  expect(completionsOf("status:", 7, NAMES)).toEqual([
    "status:pending",
    "status:running",
    "status:error",
  ]);
  expect(completionsOf("status:error,p", 14, NAMES)).toEqual(["status:error,pending"]);
  expect(completionsOf("thread:x me", 11, NAMES)).toEqual(["metadata."]);
  expect(complete("thread:x st", 11, "status:")).toBe("thread:x status:");
  expect(complete("status:err", 10, "status:error")).toBe("status:error ");
});

it("times and durations are short", () => {
  expect(
    [0, 59_000, 60_000, 7_200_000, 3 * 86_400_000].map((ms) => agoText(NOW - ms, NOW)),
  ).toEqual(["now", "59s ago", "1m ago", "2h ago", "3d ago"]);
  expect(agoText(NOW + 90_000, NOW)).toBe("in 1m");
  expect([4, 999, 2_400, 185_000, 7_800_000].map(elapsedText)).toEqual([
    "4 ms",
    "999 ms",
    "2.4 s",
    "3 min 5 s",
    "2 h 10 min",
  ]);
});

it("clock changes are found to the minute, with what the scheduler does", () => {
  const [from, to] = [Date.parse("2027-03-01T00:00:30Z"), Date.parse("2027-12-01T00:00:00Z")];
  const changes = clockChanges("Europe/Berlin", from, to);
  expect(changes).toEqual([
    { at: Date.parse("2027-03-28T01:00:00Z"), timezone: "Europe/Berlin", shift: 60 },
    { at: Date.parse("2027-10-31T01:00:00Z"), timezone: "Europe/Berlin", shift: -60 },
  ]);
  expect(changes.map(changeText)).toEqual([
    "Europe/Berlin: the clock goes forward 60 minutes, to 28/03/2027 03:00. A run at a skipped time starts then.",
    "Europe/Berlin: the clock goes back 60 minutes, to 31/10/2027 02:00. A time that comes twice runs once, the first time.",
  ]);
  expect(clockChanges("Australia/Lord_Howe", from, to).map(({ shift }) => shift)).toEqual([
    -30, 30,
  ]);
  expect(clockChanges("Asia/Tokyo", from, to)).toEqual([]);
});
