import { InvalidOptionError } from "../../../core/options/options.ts";
import { thrownText } from "../offer.ts";

/** As `invalidOption()` of core, and smaller. */
export function invalid(option: string, value: unknown, expected: string): InvalidOptionError {
  const given = typeof value === "string" ? `"${value}"` : thrownText(value);
  return new InvalidOptionError(
    option,
    `Invalid ${option} ${given.slice(0, 100)}: expected ${expected}.`,
  );
}
