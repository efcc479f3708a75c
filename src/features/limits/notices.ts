/** Notifies the app once when 80 and when 100 percent of the money of a window are used: through the outbox, or as a problem. */

import { InvalidOptionError, invalidOption } from "../../core/options/options.ts";
import type { Problem } from "../../core/problems.ts";
import { messageFor, takesEvents } from "../../outbox/destinations/index.ts";
import type { Outbox } from "../../outbox/outbox.ts";
import type { LimitSubject, LimitsSettings } from "./declared/declarations.ts";
import { dollarText, NANODOLLARS } from "./errors.ts";
import type { Notice } from "./keeper/protocol.ts";

/** What a destination of `notify` gets. */
export type LimitEvent = {
  readonly type: "perdure.limit";
  readonly limit: string;
  /** `""` for a limit without keys. */
  readonly key: string;
  readonly percent: 80 | 100;
  /** Dollars of the window. */
  readonly used: number;
  readonly of: number;
};

/** @throws InvalidOptionError for a destination that the outbox refuses, or that takes no event */
export function checkNotify({ limits }: LimitsSettings, outbox: Outbox): void {
  for (const { name, notify } of limits) {
    const option = `limit(${JSON.stringify(name)}).notify`;
    for (const to of notify) {
      const problem = outbox.problemOf(to, option);
      if (problem) throw new InvalidOptionError(option, problem);
      const expected = "what slack(), webhook(), method() or another destination of events returns";
      if (!takesEvents(to)) throw invalidOption(option, to, expected);
    }
  }
}

export class Notices {
  constructor(
    private readonly settings: LimitsSettings,
    private readonly outbox: Outbox,
    private readonly report: (problem: Problem) => void,
    private readonly subject: Pick<LimitSubject, "agent" | "className">,
  ) {}

  /** Rejects where it cannot be stored: the keeper gives it to another agent then. */
  async put(limit: string, notice: Notice): Promise<void> {
    const { key, percent, usedNanodollars, ofNanodollars } = notice;
    const used = usedNanodollars / NANODOLLARS;
    const of = ofNanodollars / NANODOLLARS;
    const event: LimitEvent = { type: "perdure.limit", limit, key, percent, used, of };
    const destinations = this.settings.limits.find(({ name }) => name === limit)?.notify ?? [];
    if (destinations.length === 0) {
      this.#report(event);
      return;
    }
    // A key may have characters that no header takes.
    const id = `limit:${await digestOf(notice.id)}`;
    const text = textOf(event);
    await this.outbox.ready();
    for (const [index, to] of destinations.entries())
      this.outbox.enqueue(`${id}:${index}`, to, JSON.stringify(messageFor(to, event, { text })));
    this.outbox.flush();
  }

  #report(event: LimitEvent): void {
    const { limit, key, percent, used, of } = event;
    const message = textOf(event);
    const ids = { ...this.subject, limit, key, percent, used, of };
    const level = percent === 100 ? "error" : "warn";
    this.report({ type: "limit:money", level, message, ids });
  }
}

function textOf({ limit, key, percent, used, of }: LimitEvent): string {
  const whose = key === "" ? "" : ` of ${key.replace(/\s+/g, " ")}`;
  return `The limit ${limit}${whose} has used ${percent} percent of its money: ${dollarText(used * NANODOLLARS)} of ${dollarText(of * NANODOLLARS)}.`;
}

async function digestOf(text: string): Promise<string> {
  const bytes = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return new Uint8Array(bytes).toHex().slice(0, 32);
}
