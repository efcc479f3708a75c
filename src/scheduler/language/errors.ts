/** The error of an invalid schedule, and how it shows the place. */

/** Of a text that is longer than any schedule, this many characters are shown. */
const MAX_SHOWN = 100;

type Place = { readonly position: number; readonly nearest: string | undefined };

/** An invalid schedule. The message has the text, the place, what was expected there, and the nearest valid schedule. */
export class ScheduleSyntaxError extends Error {
  override readonly name = "ScheduleSyntaxError";
  /** The text as it was given, cut if it is too long. */
  readonly schedule: string;
  /** Index in `schedule` of the first character that does not fit; its length where the text ends too early. */
  readonly position: number;
  /** The words that are accepted there. */
  readonly expected: string;
  /** The whole text corrected: it parses with the same options. Undefined where no valid schedule is near. */
  readonly nearest: string | undefined;

  constructor(schedule: string, expected: string, place?: Place) {
    super(messageOf(schedule, expected, place));
    this.schedule = schedule;
    this.position = place?.position ?? 0;
    this.expected = expected;
    this.nearest = place?.nearest;
  }
}

/** For a value that is no string, or a string that is too long. */
export function unreadable(given: unknown, expected: string): ScheduleSyntaxError {
  // An object chooses its text in `String()`, or makes it fail.
  const text = typeof given === "object" && given !== null ? "an object" : String(given);
  const schedule = text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}...` : text;
  return new ScheduleSyntaxError(schedule, expected);
}

function messageOf(schedule: string, expected: string, place: Place | undefined): string {
  const start = `Invalid schedule ${JSON.stringify(schedule)}: expected ${expected}`;
  if (!place) return `${start}.`;
  const { position, nearest } = place;
  const word = /^(?:,|[^\s,]+)/.exec(schedule.slice(position))?.[0];
  const got = word === undefined ? "the end" : JSON.stringify(word);
  const meant = nearest === undefined ? "" : ` Did you mean ${JSON.stringify(nearest)}?`;
  // One line, so that the caret stands under its character.
  const line = schedule.replaceAll(/[\s\p{Cc}]/gu, " ");
  return `${start} at position ${position}, got ${got}.${meant}\n  ${line}\n  ${" ".repeat(position)}^`;
}
