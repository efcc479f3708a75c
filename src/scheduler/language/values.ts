/** Times of day, dates and counts: how they are parsed, written, and corrected. */

import { DAY_MS, MINUTE_MS } from "../calendar/civil.ts";
import type { LocalDate, LocalTime } from "../rule.ts";
import type { Reader } from "./reader.ts";

const TIME = /^([01]\d|2[0-3]):([0-5]\d)$/;
const DATE = /^\d{4}-\d{2}-\d{2}$/;
const NAMED_TIMES: ReadonlyMap<string, string> = new Map([
  ["noon", "12:00"],
  ["midday", "12:00"],
  ["midnight", "00:00"],
]);

/** Minutes after 00:00. */
export function readTime(reader: Reader, latest: "23:59" | "24:00" = "23:59"): number {
  return reader.value(`a time from 00:00 to ${latest}`, correctedTimes, ({ word }) =>
    word === "24:00" && word === latest ? 1_440 : minutesOf(word),
  );
}

export function readDate(reader: Reader): LocalDate {
  return reader.value("a date as YYYY-MM-DD", correctedDates, ({ word }) => readLocalDate(word));
}

/** A date, or a date and a time with a T or a space between them; `time` is undefined for a date alone. */
export function readDateTime(reader: Reader): { date: LocalDate; time: number | undefined } {
  const expected = "a date as YYYY-MM-DD, with or without a time as THH:MM";
  const read = reader.value(expected, correctedDateTimes, ({ word }) => {
    const [day = "", clock] = word.split("t");
    const date = readLocalDate(day);
    const time = clock === undefined ? undefined : minutesOf(clock);
    if (date === undefined || (clock !== undefined && time === undefined)) return undefined;
    return { date, time };
  });
  // A digit here can only begin a time.
  if (read.time !== undefined || !/^\d/.test(reader.token?.word ?? "")) return read;
  return { date: read.date, time: readTime(reader) };
}

/** A whole number from 1 to `most`, without leading zeros. */
export function readCount(reader: Reader, expected: string, most: number): number {
  return reader.value(`${expected} from 1 to ${most}`, correctedCounts(most), ({ word }) => {
    const count = /^[1-9]\d{0,7}$/.test(word) ? Number(word) : 0;
    return count >= 1 && count <= most ? count : undefined;
  });
}

export function localTime(date: LocalDate, minutes: number): LocalTime {
  return date * DAY_MS + minutes * MINUTE_MS;
}

/** Minutes after 00:00 as `HH:MM`. */
export function timeText(minutes: number): string {
  const pad = (value: number) => String(value).padStart(2, "0");
  return `${pad(Math.floor(minutes / 60))}:${pad(minutes % 60)}`;
}

export function dateText(date: LocalDate): string {
  return new Date(date * DAY_MS).toISOString().slice(0, 10);
}

export function dateTimeText(at: LocalTime): string {
  return new Date(at).toISOString().slice(0, 16);
}

/** The date, with its time unless that is 00:00. */
export function momentText(at: LocalTime): string {
  return at % DAY_MS === 0 ? dateText(at / DAY_MS) : dateTimeText(at);
}

function minutesOf(word: string): number | undefined {
  const [, hour, minute] = TIME.exec(word) ?? [];
  return hour === undefined ? undefined : Number(hour) * 60 + Number(minute);
}

/** Parses `YYYY-MM-DD`; undefined for a date that does not exist, which `Date` would move into the next month. */
export function readLocalDate(word: string): LocalDate | undefined {
  if (!DATE.test(word)) return undefined;
  const ms = Date.parse(`${word}T00:00:00Z`);
  const date = ms / DAY_MS;
  return Number.isNaN(ms) || dateText(date) !== word ? undefined : date;
}

/** Corrects `9:00`, `9am`, `17.30`, `0930`, `25:00`; an example for anything else. */
function correctedTimes(found: string): readonly string[] {
  const named = NAMED_TIMES.get(found);
  if (named !== undefined) return [named];
  const [, hours, minutes = "0", half] =
    /^(\d{1,2}?)(?:[:.h]?(\d{2}|(?<=:)\d))?(?::\d\d)?(am|pm)?\W*$/.exec(found) ?? [];
  if (hours === undefined) return ["09:00"];
  const given = Number(hours);
  const hour = half === undefined ? given : (given % 12) + (half === "pm" ? 12 : 0);
  const valid = hour === 24 ? 0 : Math.min(hour, 23);
  return [timeText(valid * 60 + Math.min(Number(minutes), 59))];
}

/** Corrects `2026-1-5`, `2026/01/05`, `2026-02-30`, `24.12.2026`. */
function correctedDates(found: string): readonly string[] {
  const [, y, m, d] = /^(\d{4})\D?(\d{1,2})\D?(\d{1,2})(?:\D.*)?$/.exec(found) ?? [];
  const [, day, month, year] = /^(\d{1,2})\.(\d{1,2})\.(\d{4})\W*$/.exec(found) ?? [];
  const corrected =
    y !== undefined
      ? clampedDate(Number(y), Number(m), Number(d))
      : year !== undefined && clampedDate(Number(year), Number(month), Number(day));
  return corrected ? [corrected] : ["2026-12-24"];
}

function correctedDateTimes(found: string): readonly string[] {
  const [day = "", clock] = found.split("t");
  const dates = correctedDates(day);
  if (clock === undefined) return dates;
  return [...dates.map((date) => `${date}T${correctedTimes(clock)[0]}`), ...dates];
}

function clampedDate(year: number, month: number, day: number): string {
  const within = Math.min(Math.max(month, 1), 12);
  const last = new Date(Date.UTC(year, within, 0)).getUTCDate();
  const clamped = Math.min(Math.max(day, 1), last);
  return [year, within, clamped].map((part) => String(part).padStart(2, "0")).join("-");
}

function correctedCounts(most: number): (found: string) => readonly string[] {
  return (found) => {
    const digits = found.replaceAll(/\D/g, "");
    if (digits === "") return ["1"];
    return [String(Math.min(Math.max(Number(digits), 1), most))];
  };
}
