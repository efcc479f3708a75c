/** How findings write numbers, times and lists. */

const DAY_MS = 86_400_000;
/** Ids in the evidence of one finding. */
const MOST_IDS = 10;
/** Characters of a name or an error within a sentence. */
const MOST_SHOWN = 120;

/** `09:12 UTC`, with the date if it is more than a day ago or ahead. */
export function at(time: number, now: number): string {
  const [date, clock = ""] = new Date(time).toISOString().split("T");
  const minutes = `${clock.slice(0, 5)} UTC`;
  return Math.abs(now - time) < DAY_MS ? minutes : `${date} ${minutes}`;
}

/** `1 delivery`, `3 deliveries`. */
export function plural(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}

/** The verb of `plural()`: `fails` of one, `fail` of many. */
export function verb(count: number, one: string, many: string): string {
  return count === 1 ? one : many;
}

// Characters that change the direction of the text after them: https://www.unicode.org/reports/tr9/#Explicit_Directional_Embeddings
const DIRECTIONS = /[\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069]/g;

/** One line of a text of the app or of a receiver, which cannot change how the sentence around it is read. */
export function line(text: string, limit = MOST_SHOWN): string {
  const flat = text
    .replace(DIRECTIONS, "")
    .replace(/[\s\p{Cc}]+/gu, " ")
    .trim();
  return flat.length > limit ? `${flat.slice(0, limit).toWellFormed()}...` : flat;
}

/** The first ids of several groups, each once. */
export function someIds(groups: readonly { readonly ids: readonly string[] }[]): string[] {
  return [...new Set(groups.flatMap(({ ids }) => ids))].slice(0, MOST_IDS);
}

export function sumOf(groups: readonly { readonly count: number }[]): number {
  return groups.reduce((sum, { count }) => sum + count, 0);
}

export function earliestOf(groups: readonly { readonly since: number }[]): number {
  return Math.min(...groups.map(({ since }) => since));
}

/** The ids of the first submissions. */
export function idsOf(submissions: readonly { readonly submissionId: string }[]): string[] {
  return submissions.slice(0, MOST_IDS).map(({ submissionId }) => submissionId);
}
