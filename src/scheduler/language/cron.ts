/** `cron <expression>`, as croner reads it: its next match, and which of its fields is invalid. */

import { Cron } from "croner";
import { BoundedCache } from "../../core/bounded-cache.ts";
import type { Reader } from "./reader.ts";
import { SUFFIXES } from "./suffixes.ts";

const cache = new BoundedCache<Cron>(200);

/**
 * An expression of five fields, six with seconds first, or a nickname such as `@daily`. `nextRun(date)` gives its matches
 * on a clock that never changes. As in crontab(5), a date matches if the day of the month or the day of the week does,
 * where both are given; `+` before the day of the week requires both (https://github.com/hexagon/croner).
 *
 * @throws TypeError or RangeError of croner for an invalid expression
 */
export function cronOf(expression: string): Cron {
  return cache.get(expression, () => {
    // Without `mode` croner takes seven fields, with a year. Without a function it sets no timer.
    const cron = new Cron(expression, {
      // The same as the zone "UTC", without a call of Intl at each step.
      utcOffset: 0,
      mode: "5-or-6-parts",
      domAndDow: hasFreeDay(expression),
      paused: true,
    });
    // Croner takes a date as a job that runs once.
    if (cron.getPattern() === undefined) throw new TypeError("a date is no cron expression");
    return cron;
  });
}

/** In crontab(5) a day field that begins with a star is unrestricted, also one with a step: the other field must match, too. */
function hasFreeDay(expression: string): boolean {
  const [day = "", , weekday = ""] = expression.trim().split(/\s+/).slice(-3);
  return day.startsWith("*") || weekday.startsWith("*");
}

const FIELDS = "five cron fields (minute, hour, day of month, month, day of week), or six";

/** The name and the values of each of the six fields. */
const VALUES = [
  ["a second", 0, 59],
  ["a minute", 0, 59],
  ["an hour", 0, 23],
  ["a day of the month", 1, 31],
  ["a month", 1, 12],
  ["a day of the week", 0, 7],
] as const;

/** @throws Mismatch */
export function readCron(reader: Reader) {
  const { index } = reader;
  const fields = fieldsAhead(reader);
  if (fields.length === 0) reader.fail(`${FIELDS} with seconds first`, () => ["0 9 * * 1-5"]);
  const problem = problemOf(fields.join(" "));
  if (problem !== undefined) failAt(reader, index, fields, problem);
  const pattern = cronOf(fields.join(" ")).getPattern() as string;
  const expression = pattern.toUpperCase();
  return { rule: { form: "cron", expression } as const, text: `cron ${expression}` };
}

/** Up to the first suffix. A comma with spaces around it still belongs to its field. */
function fieldsAhead(reader: Reader): string[] {
  const fields: string[] = [];
  let isJoined = false;
  const suffixes: readonly string[] = SUFFIXES;
  while (reader.token !== undefined && !suffixes.includes(reader.token.word)) {
    const { word } = reader.token;
    isJoined ||= word === ",";
    fields.push(isJoined ? `${fields.pop() ?? ""}${word}` : word);
    isJoined = word === ",";
    reader.index += 1;
  }
  return fields;
}

function problemOf(expression: string): string | undefined {
  try {
    cronOf(expression);
    return undefined;
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    return error.message.replace(/^CronPattern: /, "");
  }
}

function failAt(reader: Reader, start: number, fields: readonly string[], problem: string): never {
  if (fields[0]?.startsWith("@")) {
    const nicknames = ["@hourly", "@daily", "@weekly", "@monthly", "@yearly", "@annually"];
    return reader.refuse(start, `a cron nickname (${problem})`, () => nicknames);
  }
  if (fields.length < 5) return reader.fail(`${FIELDS} (${problem})`, () => ["*"]);
  const word = fields.findIndex((field, position) => position >= 5 && /^[a-z]{2,}$/.test(field));
  if (word >= 0) {
    reader.index = tokenOf(reader, start, word);
    reader.accept(SUFFIXES);
    return reader.fail("the end", () => []);
  }
  const expected = `a valid cron expression (${problem})`;
  if (fields.length > 6) return reader.refuse(reader.index - 1, expected, () => []);
  const isWrong = (part: string, position: number) =>
    problemOf(fields.map((_, other) => (other === position ? part : "*")).join(" ")) !== undefined;
  const field = Math.max(fields.findIndex(isWrong), 0);
  const parts = fields[field]?.split(",") ?? [];
  const wrong = parts.findIndex((one) => isWrong(one, field));
  const part = Math.max(wrong, 0);
  // Each comma is a token too.
  const index = tokenOf(reader, start, field) + 2 * part;
  const [name, least, most] = VALUES.at(field - fields.length) ?? VALUES[0];
  // Croner's messages count days and months from 0.
  const isNumber = /^\d+$/.test(parts[part] ?? "");
  return reader.refuse(index, isNumber ? `${name} from ${least} to ${most}` : expected, (found) => [
    ...correctedPart(found, least, most),
    "*",
  ]);
}

/** Corrects `32`, `0/15` and `22-2` to what croner accepts. */
function correctedPart(found: string, least: number, most: number): string[] {
  const [, value, rest = "", end = "", step = ""] = /^(\d+)(-(\d+)|\/(\d+))?$/.exec(found) ?? [];
  if (value === undefined) return [];
  const from = Math.min(Math.max(Number(value), least), most);
  if (rest === "") return [String(from)];
  if (step !== "") return [from === least ? `*/${step}` : `${from}-${most}/${step}`];
  if (Number(end) < least || Number(end) > most) return [];
  // A range across the end. Sunday is 0 and 7.
  return [`${from}-${most},${least === 0 && most === 7 ? 1 : least}-${end}`];
}

/** Index of the first token of a field: commas and what follows them add tokens. */
function tokenOf(reader: Reader, start: number, field: number): number {
  let index = start;
  for (let seen = 0; seen < field; seen += 1) {
    index += 1;
    while (reader.tokens[index]?.word === ",") index += 2;
  }
  return index;
}
