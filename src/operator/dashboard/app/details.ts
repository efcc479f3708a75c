/** The opened item: its actions, its parts, and all of its fields. */

import type { ScheduledRun } from "../../../scheduler/types.ts";
import type { AgentRef, Details as Items, Trace, WorkflowStep } from "../../protocol.ts";
import { elapsedText } from "../../waterfall.ts";
import { Waterfall } from "./charts/waterfall.ts";
import { ask } from "./dialog.ts";
import { closeDetails } from "./focus.ts";
import { html } from "./html.ts";
import { Copy, Head, MAX_TEXT, Status, Time, Value } from "./parts.ts";
import { signal } from "./signals.ts";
import { agent, canAct, client, definitionOf, linkTo, now, part, session } from "./state.ts";
import { VIEWS, type View } from "./views.ts";

type Opened = {
  readonly key: string;
  /** Null: it does not exist. */
  readonly item: unknown;
  readonly trace?: Trace | null | undefined;
  readonly parts?: readonly unknown[] | undefined;
};

const opened = signal<Opened | undefined>(undefined);
const keyOf = (ref: AgentRef, name: string, id: string) => JSON.stringify([ref, name, id]);

/** Loads the opened item, with its trace, runs or messages. */
export async function loadDetails(name: string): Promise<() => void> {
  const view = VIEWS[name];
  const ref = agent.value;
  const id = part("id");
  if (!view || !ref || id === "") return () => {};
  const [item, trace, parts] = await Promise.all([
    view.opens ? client.inspect(ref, view.name as keyof Items, id) : undefined,
    name === "submissions" ? client.trace(ref, id) : undefined,
    name === "tasks" || name === "threads" ? partsOf(ref, name, id) : undefined,
  ]);
  const key = keyOf(ref, name, id);
  const next: Opened = { key, item, trace, parts };
  return () => {
    if (JSON.stringify(opened.peek()) !== JSON.stringify(next)) opened.value = next;
  };
}

async function partsOf(ref: AgentRef, name: "tasks" | "threads", id: string) {
  const part = name === "tasks" ? "tasks/runs" : "threads/messages";
  return (await client.parts(ref, part, id, { limit: 20 })).items;
}

type Props = { name: string; view: View; agentRef: AgentRef; id: string; item: unknown };

export function Details({ name, view, agentRef, id, item }: Props) {
  const found = opened.value?.key === keyOf(agentRef, name, id) ? opened.value : undefined;
  const shown = found?.item ?? item;
  const isGone = found !== undefined && !shown;
  return panel(
    id,
    html`${isGone && html`<p role="status">It does not exist, or was deleted.</p>`}
    ${shown !== undefined && shown !== null && html`<${Buttons} view=${view} agentRef=${agentRef} item=${{ ...(item as object), ...(shown as object) }} />`}
    ${found?.trace && found.trace.spans.length > 0 && html`<${Waterfall} trace=${found.trace} now=${now.value} />`}
    ${name === "workflows" && shown !== undefined && html`<${Steps} steps=${(shown as { steps?: readonly WorkflowStep[] } | null)?.steps ?? []} />`}
    ${name === "tasks" && html`<${Runs} runs=${(found?.parts ?? []) as readonly ScheduledRun[]} />`}
    ${name === "threads" && html`<${Messages} messages=${(found?.parts ?? []) as readonly Message[]} />`}
    ${!isGone && (shown ? html`<${Value} of=${fieldsOf(shown as Readonly<Record<string, unknown>>)} isOwn />` : html`<p class="quiet">Loading…</p>`)}`,
  );
}

/** The opened item beside its list. */
export function panel(id: string, content: unknown) {
  return html`<aside key=${id} aria-label="Details">
    <header>
      <h2 tabindex="-1" ref=${focus}>${id}</h2>
      <${Copy} text=${id} />
      <button onClick=${closeDetails} aria-label="Close details">✕</button>
    </header>
    ${content}
  </aside>`;
}

/** When the details appear: a reader of the screen hears what was opened. */
const focus = (heading: HTMLElement | null) => heading?.focus();

/** Without what has a table of its own. */
function fieldsOf({ steps: _, lastRun: __, ...fields }: Readonly<Record<string, unknown>>) {
  return fields;
}

function Buttons({ view, agentRef, item }: { view: View; agentRef: AgentRef; item: object }) {
  const actions = view.actions(item as never);
  if (actions.length === 0) return null;
  if (!canAct.value)
    return html`<p class="quiet">${session.value?.id ?? "You"} may read, and not act.</p>`;
  return html`<p class="bulk">${actions.map((action, at) => {
    const { label, isDestructive } = definitionOf(action.do);
    return html`<button key=${label} class=${isDestructive ? "danger" : at === 0 ? "primary" : ""} onClick=${() => ask(agentRef, { label, action })}>${label}</button>`;
  })}</p>`;
}

function Steps({ steps }: { steps: readonly WorkflowStep[] }) {
  if (steps.length === 0) return html`<p class="quiet">No step has asked the agent yet.</p>`;
  return html`<table class="rows"><caption>Steps</caption>
    <${Head} of=${["Status", "Step", "Started", "Took"]} />
    <tbody>${steps.map(
      (
        { name, kind, status, startedAt, endedAt, submissionIds = [], approvalId, ...texts },
        at,
      ) => html`<tr key=${at}>
      <td><${Status} of=${status} /></td>
      <td>${name} <span class="quiet">${kind}</span>
        ${submissionIds.map((id) => html` <a key=${id} ...${linkTo({ view: "submissions", id })}>turn</a>`)}
        ${approvalId !== undefined && html` <a ...${linkTo({ view: "approvals", id: approvalId })}>approval</a>`}
        ${(["error", "input", "output"] as const).map((key) => texts[key] !== undefined && html`<details key=${key} open=${key === "error"}><summary>${key}</summary><${Value} of=${texts[key]} name=${key} /></details>`)}
      </td>
      <td><${Time} at=${startedAt} /></td>
      <td>${elapsedText((endedAt ?? Math.max(startedAt, now.value)) - startedAt)}${endedAt === undefined && ", so far"}</td>
    </tr>`,
    )}</tbody></table>`;
}

function Runs({ runs }: { runs: readonly ScheduledRun[] }) {
  return html`<table class="rows"><caption>Runs</caption>
    <${Head} of=${["Status", "For", "Cause", "Attempts", "Why"]} />
    <tbody>${runs.map(
      ({
        idempotencyKey,
        status,
        scheduledFor,
        cause,
        attempts,
        error,
        reason,
      }) => html`<tr key=${idempotencyKey}>
      <td><${Status} of=${status} /></td><td><${Time} at=${scheduledFor} /></td><td>${cause}</td><td>${attempts}</td><td>${error?.message ?? reason ?? ""}</td>
    </tr>`,
    )}</tbody></table>`;
}

type Message = {
  readonly id: string;
  readonly role: string;
  readonly parts: readonly { readonly type: string; readonly text?: string }[];
};

function Messages({ messages }: { messages: readonly Message[] }) {
  return html`<ol class="messages">${messages.map(
    ({ id, role, parts }) => html`<li key=${id}>
    <b>${role}</b> ${parts.map(({ type, text }) => html`<span class="text">${(text ?? `[${type}]`).slice(0, MAX_TEXT)} </span>`)}
  </li>`,
  )}</ol>`;
}
