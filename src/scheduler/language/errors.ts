/** What is thrown for a text that is no schedule, and how it points at the mistake. */

/** Of a text that is longer than any schedule, and of what is no text, as much as this is shown. */
const SHOWN = 100;

/**
 * A text that is no schedule. The message has the text, where in it the
 * mistake is, what was expected there, and the nearest text that is a schedule.
 */
export class ScheduleSyntaxError extends Error {
  override readonly name = "ScheduleSyntaxError";
  /** The text as it was given; for what was no text, as much of it as can be shown. */
  readonly schedule: string;
  /** Index in `schedule` of the first character that does not fit; its length where the text ends too early. */
  readonly position: number;
  /** What would have fitted, in words. */
  readonly expected: string;
  /** The whole text mended: it parses with the same options. Undefined where none is near. */
  readonly nearest: string | undefined;

  constructor(mistake: {
    readonly schedule: string;
    readonly position: number;
    readonly expected: string;
    readonly nearest: string | undefined;
  }) {
    super(messageOf(mistake));
    this.schedule = mistake.schedule;
    this.position = mistake.position;
    this.expected = mistake.expected;
    this.nearest = mistake.nearest;
  }
}

/** For what is no text, or too long a one. */
export function unreadable(given: unknown, expected: string): ScheduleSyntaxError {
  // What `String()` makes of an object is chosen by the object, or fails.
  const text = typeof given === "object" && given !== null ? "an object" : String(given);
  const schedule = text.length > SHOWN ? `${text.slice(0, SHOWN)}...` : text;
  return new ScheduleSyntaxError({ schedule, position: 0, expected, nearest: undefined });
}

function messageOf(mistake: {
  schedule: string;
  position: number;
  expected: string;
  nearest: string | undefined;
}): string {
  const { schedule, position, expected, nearest } = mistake;
  const meant = nearest === undefined ? "" : ` Did you mean ${JSON.stringify(nearest)}?`;
  // One line, so that the caret stands under its character.
  const line = schedule.replaceAll(/[\s\p{Cc}]/gu, " ");
  return (
    `No schedule: ${JSON.stringify(schedule)}. Expected ${expected} at position ${position}.${meant}\n` +
    `  ${line}\n  ${" ".repeat(position)}^`
  );
}
