/** What an alert says: a text for people, an event for webhooks and other programs. */

import { line } from "../../core/operated/text.ts";
import type { Destination } from "../../kernel/outbox/index.ts";
import type { AgentRef, AlertEvent } from "../protocol.ts";

const FOR_PEOPLE: readonly string[] = ["slack", "discord", "telegram", "github-comment", "email"];
const NOT_FOR_EVENTS: readonly string[] = ["workflow", "workflow-start", "otlp"];

export function takesAlerts({ kind }: Destination): boolean {
  return !NOT_FOR_EVENTS.includes(kind);
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
