/** The language of the filter field: `status:error,pending thread:"my thread" since:2h metadata.user:42`. */

/** A filter of a list: its name in the field, the parameter of the API, and the values that complete it. */
export type FilterName = {
  readonly name: string;
  readonly parameter: string;
  /** Undefined: any text. */
  readonly values?: readonly string[];
  /** A time: ISO 8601, or how long ago, e.g. `2h`. */
  readonly isTime?: boolean;
};

export type Term = { readonly name: string; readonly value: string };
export type Parsed = { readonly terms: readonly Term[]; readonly error?: string };

const TERM = /^([\w.-]+):("(?:[^"\\]|\\.)*"|[^\s"]*)/;

/** Reads the text of the field. An error says what is wrong with it, and which names exist. */
export function parseFilter(text: string, names: readonly FilterName[]): Parsed {
  const terms: Term[] = [];
  for (let rest = text.trim(); rest !== ""; ) {
    const [all = "", name = "", raw = ""] = TERM.exec(rest) ?? [];
    if (all === "")
      return { terms, error: `Expected name:value at "${rest.slice(0, 20)}". ${knownOf(names)}` };
    const value = raw.startsWith('"') ? unquote(raw) : raw;
    const problem = problemOf({ name, value }, names);
    if (problem) return { terms, error: problem };
    if (terms.some((term) => term.name === name))
      return { terms, error: `"${name}" is there twice.` };
    terms.push({ name, value });
    rest = rest.slice(all.length);
    if (rest !== "" && !/^\s/.test(rest)) return { terms, error: `Expected a space after ${all}` };
    rest = rest.trimStart();
  }
  return { terms };
}

export function printFilter(terms: readonly Term[]): string {
  return terms
    .map(({ name, value }) => `${name}:${/^[^\s"]+$/.test(value) ? value : quote(value)}`)
    .join(" ");
}

const quote = (value: string) => `"${value.replace(/["\\]/g, "\\$&")}"`;
const unquote = (raw: string) => raw.slice(1, -1).replace(/\\(.)/gs, "$1");

function problemOf({ name, value }: Term, names: readonly FilterName[]): string | undefined {
  const known = names.find(
    (each) => each.name === name || (each.name.endsWith(".") && name.startsWith(each.name)),
  );
  if (!known) return `Unknown filter "${name}". ${knownOf(names)}`;
  if (value === "")
    return `"${name}:" needs a value${known.values ? `: ${known.values.join(", ")}` : ""}.`;
  const wrong = known.values && value.split(",").find((each) => !known.values?.includes(each));
  if (wrong !== undefined) return `"${wrong}" is no ${name}. Use ${known.values?.join(", ")}.`;
  if (known.isTime && timeOf(value, 0) === undefined)
    return `"${value}" is no time. Use 2h, 7d or 2026-11-01T09:00:00Z.`;
  return undefined;
}

const knownOf = (names: readonly FilterName[]) =>
  names.length > 0
    ? `Filters: ${names.map(({ name }) => (name.endsWith(".") ? `${name}key` : name)).join(", ")}.`
    : "This list has no filters.";

const UNITS: Readonly<Record<string, number>> = {
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/** `Date` takes February 30 for March 2. */
const isDay = (day: string) => new Date(Date.parse(day)).toJSON()?.slice(0, 10) === day;

/** Epoch milliseconds of a time, or of how long before `now` it is. */
function timeOf(value: string, now: number): number | undefined {
  const [, count, unit = ""] = /^(\d{1,6})([smhd])$/.exec(value) ?? [];
  if (count !== undefined) return now - Number(count) * (UNITS[unit] ?? 0);
  const [day = ""] = /^\d{4}-\d\d-\d\d/.exec(value) ?? [];
  const at = isDay(day) ? Date.parse(value) : Number.NaN;
  return Number.isNaN(at) ? undefined : at;
}

/** The filter for the API, as a list and an action take it. */
export function filterOf(
  terms: readonly Term[],
  names: readonly FilterName[],
  now: number,
): Record<string, unknown> {
  const filter: Record<string, unknown> = {};
  for (const { name, value } of terms) {
    const known = names.find((each) => each.name === name);
    if (known) filter[known.parameter] = typedValue(known, value, now);
    else
      filter.metadata = {
        ...(filter.metadata as object),
        [name.slice(name.indexOf(".") + 1)]: scalarOf(value),
      };
  }
  return filter;
}

function typedValue({ values, isTime }: FilterName, value: string, now: number): unknown {
  if (isTime) return timeOf(value, now);
  if (value === "true" || value === "false") return value === "true";
  return values && value.includes(",") ? value.split(",") : value;
}

function scalarOf(value: string): string | number | boolean {
  if (value === "true" || value === "false") return value === "true";
  return /^-?\d{1,15}$/.test(value) ? Number(value) : value;
}

/** What the word before the caret can become: whole words, without those after it. */
export function completionsOf(text: string, caret: number, names: readonly FilterName[]): string[] {
  const word = /[^\s]*$/.exec(text.slice(0, caret))?.[0] ?? "";
  const colon = word.indexOf(":");
  if (colon < 0) {
    return names
      .filter(({ name }) => name.startsWith(word))
      .map(({ name }) => (name.endsWith(".") ? name : `${name}:`));
  }
  const known = names.find(({ name }) => name === word.slice(0, colon));
  const values = known?.values ?? (known?.isTime ? ["15m", "1h", "24h", "7d"] : []);
  const given = word.slice(colon + 1).split(",");
  const last = given.pop() ?? "";
  const head = word.slice(0, colon + 1) + given.map((each) => `${each},`).join("");
  return values
    .filter((value) => value.startsWith(last) && value !== last && !given.includes(value))
    .map((value) => head + value);
}

/** The text with a completion in place of the word before the caret. */
export function complete(text: string, caret: number, completion: string): string {
  const before = text.slice(0, caret).replace(/[^\s]*$/, completion);
  const isDone = !/[:.,]$/.test(completion);
  return before + (isDone && text.slice(caret) === "" ? " " : "") + text.slice(caret);
}
