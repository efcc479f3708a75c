/** The option `alerts` of `operations()`. */

import * as z from "zod";
import { duration, oneOf, optionsOf } from "../../core/options/option-schemas.ts";
import type { Duration } from "../../core/options/options.ts";
import type { Destination } from "../../outbox/destinations/index.ts";

export type AlertOptions = {
  /** Who is sent a message: `slack()` or another reply, `email()`, or `webhook()` for the finding as JSON. */
  readonly to: Destination;
  /**
   * The lowest severity that is announced.
   * @default "error"
   */
  readonly on?: "error" | "warning";
  /**
   * How long a finding must have lasted, and how long after a failure the agent looks for findings.
   * @default "5 minutes"
   */
  readonly after?: Duration;
  /**
   * A finding that comes back within this time after its end is not announced again.
   * @default "1 hour"
   */
  readonly quiet?: Duration;
};

export const OPERATIONS = optionsOf<{ readonly alerts?: AlertOptions }>()({
  alerts: optionsOf<AlertOptions>()({
    // The outbox checks it, because it knows the bindings.
    to: z.unknown(),
    on: oneOf(["error", "warning"]).default("error"),
    after: duration().prefault("5 minutes"),
    quiet: duration().prefault("1 hour"),
  }).optional(),
});

/** With every default. Durations are milliseconds. */
export type AlertSettings = NonNullable<z.output<typeof OPERATIONS>["alerts"]>;
