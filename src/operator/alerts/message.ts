/** What an alert says: a text for people, an event for webhooks and other programs. */

import { preview } from "../../core/json.ts";
import { invalidMessage } from "../../core/options/options.ts";
import { line } from "../../engine/operated/text.ts";
import type { Destination } from "../../outbox/destinations/index.ts";
import type { AgentRef, AlertEvent } from "../protocol.ts";

const FOR_PEOPLE: readonly string[] = ["slack", "discord", "telegram", "github-comment", "email"];
const NOT_FOR_EVENTS: readonly string[] = ["workflow", "workflow-start", "otlp"];

/** Why a valid destination takes no alerts, as a sentence; undefined where it does. */
export function problemOfKind({ kind }: Destination): string | undefined {
  if (!NOT_FOR_EVENTS.includes(kind)) return undefined;
  const expected =
    "expected what slack(), webhook(), email() or another destination of events returns";
  return invalidMessage("alerts.to.kind", preview(kind), expected);
}

export function messageFor({ kind }: Destination, event: AlertEvent): object {
  if (!FOR_PEOPLE.includes(kind)) return event;
  const text = textOf(event);
  if (kind !== "email") return { text };
  return { subject: `${headOf(event)}: ${event.finding.code}`, text };
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
