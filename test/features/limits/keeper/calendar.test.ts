import { Temporal } from "@js-temporal/polyfill";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { windowOf } from "../../../../src/features/limits/keeper/calendar.ts";

const at = (text: string) => Date.parse(text);
const span = (startsAt: string, endsAt: string) => ({
  startsAt: at(startsAt),
  endsAt: at(endsAt),
});
const day = (zone: string, now: string) => windowOf({ calendar: "day", zone }, at(now));
const month = (zone: string, now: string) => windowOf({ calendar: "month", zone }, at(now));

const zones = Intl.supportedValuesOf("timeZone");
const anyWindow = fc.record({
  calendar: fc.constantFrom("day" as const, "month" as const),
  zone: fc.constantFrom(...zones, "UTC", "+05:30"),
});
/** 1970 to 2100. */
const anyInstant = fc.integer({ min: 0, max: 4_102_444_800_000 });

describe("a calendar window", () => {
  it("is the day or the month in its zone", () => {
    const now = "2026-11-26T07:30:00Z";
    expect(day("UTC", now)).toEqual(span("2026-11-26T00:00Z", "2026-11-27T00:00Z"));
    expect(month("UTC", now)).toEqual(span("2026-11-01T00:00Z", "2026-12-01T00:00Z"));
    expect(day("America/Los_Angeles", now)).toEqual(span("2026-11-25T08:00Z", "2026-11-26T08:00Z"));
    expect(month("Asia/Tokyo", "2026-12-31T15:00:00Z")).toEqual(
      span("2026-12-31T15:00Z", "2027-01-31T15:00Z"),
    );
  });

  it("is shorter or longer where the clock changes", () => {
    expect(day("Europe/Berlin", "2027-03-28T12:00Z")).toEqual(
      span("2027-03-27T23:00Z", "2027-03-28T22:00Z"),
    );
    expect(day("Europe/Berlin", "2026-10-25T12:00Z")).toEqual(
      span("2026-10-24T22:00Z", "2026-10-25T23:00Z"),
    );
    expect(month("Europe/Berlin", "2027-03-28T12:00Z")).toEqual(
      span("2027-02-28T23:00Z", "2027-03-31T22:00Z"),
    );
  });

  it("starts after a midnight that the clock skips, and at the first of two", () => {
    expect(day("America/Sao_Paulo", "2018-11-04T12:00Z").startsAt).toBe(at("2018-11-04T03:00Z"));
    expect(day("America/Havana", "2026-11-01T12:00Z").startsAt).toBe(at("2026-11-01T04:00Z"));
    // The hour before midnight comes twice.
    expect(day("America/Sao_Paulo", "2018-02-18T02:30Z")).toEqual(
      span("2018-02-17T02:00Z", "2018-02-18T03:00Z"),
    );
  });

  it("leaves out a date that the zone skipped", () => {
    expect(day("Pacific/Apia", "2011-12-30T09:59Z").endsAt).toBe(at("2011-12-30T10:00Z"));
    expect(day("Pacific/Apia", "2011-12-30T10:00Z")).toEqual(
      span("2011-12-30T10:00Z", "2011-12-31T10:00Z"),
    );
  });

  it("contains the time, and the next one starts where it ends", () => {
    fc.assert(
      fc.property(anyWindow, anyInstant, (window, now) => {
        const found = windowOf(window, now);
        expect(found.startsAt).toBeLessThanOrEqual(now);
        expect(found.endsAt).toBeGreaterThan(now);
        expect(windowOf(window, found.startsAt)).toEqual(found);
        expect(windowOf(window, found.endsAt - 1)).toEqual(found);
        expect(windowOf(window, found.endsAt).startsAt).toBe(found.endsAt);
      }),
    );
  });

  it("starts and ends where Temporal says that its dates start", () => {
    fc.assert(
      fc.property(anyWindow, anyInstant, (window, now) => {
        const instant = Temporal.Instant.fromEpochMilliseconds(now);
        const here = instant.toZonedDateTimeISO(window.zone).toPlainDate();
        const first = window.calendar === "day" ? here : here.with({ day: 1 });
        const next = first.add(window.calendar === "day" ? { days: 1 } : { months: 1 });
        const startOf = (date: Temporal.PlainDate) =>
          date.toZonedDateTime({ timeZone: window.zone }).epochMilliseconds;
        expect(windowOf(window, now)).toEqual({ startsAt: startOf(first), endsAt: startOf(next) });
      }),
    );
  });

  it("is found again when the clock of the machine goes back", () => {
    expect(day("UTC", "2026-11-26T12:00Z").startsAt).toBe(at("2026-11-26T00:00Z"));
    expect(day("UTC", "2026-11-24T12:00Z").startsAt).toBe(at("2026-11-24T00:00Z"));
  });
});
