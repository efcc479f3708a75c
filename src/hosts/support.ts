/** The error of a host that cannot do what the caller asks for. */

import type { NewSubmission } from "../submissions/store/rows.ts";
import { CHANNEL, type HostName, type LIMITATIONS, type Limitations } from "./limitations.ts";

/** The host cannot do what the caller asks for. Thrown by the call, before anything is stored, where it is known then. */
export class NotSupportedByHostError<Host extends HostName = HostName> extends Error {
  override readonly name = "NotSupportedByHostError";
  /** What to do instead. */
  readonly alternative: string;

  constructor(
    /** The entry of the host, e.g. `"perdure/object"`. */
    readonly host: Host,
    /** The option or the step. */
    readonly option: keyof (typeof LIMITATIONS)[Host] & string,
    limitations: Limitations,
  ) {
    const alternative = limitations[option] ?? "";
    super(`${host} does not support ${option}. ${alternative}`);
    this.alternative = alternative;
  }
}

/** @throws NotSupportedByHostError for a submission that the host cannot run */
export function checkChannel(
  host: Exclude<HostName, "perdure/think">,
  { channel }: Pick<NewSubmission, "channel">,
): void {
  if (channel !== undefined)
    throw new NotSupportedByHostError(host, "channel", { channel: CHANNEL });
}
