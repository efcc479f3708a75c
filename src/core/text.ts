/** Text as storage can hold it. */

/**
 * Whether a text is well-formed UTF-16. SQLite stores half of a surrogate pair as another character, so such a text is
 * never found again, and equals others.
 */
export function isWellFormedText(value: string): boolean {
  return value.isWellFormed();
}
