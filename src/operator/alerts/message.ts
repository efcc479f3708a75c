/** What an alert says: a text for people, an event for webhooks and other programs. */

import { preview } from "../../core/json.ts";
import { invalidMessage } from "../../core/options/options.ts";
import { line } from "../../engine/operated/text.ts";
import { type Destination, messageFor, takesEvents } from "../../outbox/destinations/index.ts";
import type { AgentRef, AlertEvent } from "../protocol.ts";

/** Why a valid destination takes no alerts, as a sentence; undefined where it does. */
export function problemOfKind(to: Destination): string | undefined {
  if (takesEvents(to)) return undefined;
  const expected =
    "expected what slack(), webhook(), email() or another destination of events returns";
  return invalidMessage("alerts.to.kind", preview(to.kind), expected);
}

export function alertFor(to: Destination, event: AlertEvent): object {
  const subject = `${headOf(event)}: ${event.finding.code}`;
  return messageFor(to, event, { subject, text: textOf(event) });
}

function textOf(event: AlertEvent): string {
  const { state, finding } = event;
  const title = `${headOf(event)}: ${finding.title}`;
  if (state === "over") return title;
  return [title, finding.cause, finding.fix.text, "npx perdure report"].join("\n");
}

function headOf({ state, finding, agent, name }: AlertEvent & AgentRef): string {
  return `${state === "over" ? "Over" : finding.severity}: ${line(agent)} ${line(name)}`;
}
