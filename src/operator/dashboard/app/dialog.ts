/** The dialog of an action: it asks for a reason, counts what a filter selects, and shows the progress. */

import { commandOf } from "../../command-line.ts";
import { actedPages } from "../../pages.ts";
import type { Action, AgentRef, OperateRequest, OperateResult } from "../../protocol.ts";
import { html } from "./html.ts";
import { Value } from "./parts.ts";
import { signal } from "./signals.ts";
import { client, definitionOf, refresh } from "./state.ts";
import type { ActionButton } from "./views.ts";

type Row = NonNullable<OperateResult["rows"]>[number];

type Running = {
  readonly ref: AgentRef;
  readonly button: ActionButton;
  /** How many a dry run has counted: items of a filter, or steps that a restart runs again. Undefined while it counts. */
  readonly expected?: number | undefined;
  /** The first of them. */
  readonly rows?: readonly Row[];
  readonly isBulk: boolean;
  readonly state: "asking" | "working" | "ended";
  readonly count: number;
  readonly failed: readonly { readonly id: string; readonly error: string }[];
  readonly outcome?: string;
  readonly error?: string | undefined;
};

/** Of the failures, these are shown; the audit log counts all. */
const MAX_FAILED = 50;
/** Of what a filter selects, these are shown before it is changed. */
const MAX_ROWS = 20;
/** Characters of an error in a row. */
const MAX_TEXT = 200;

const current = signal<Running | undefined>(undefined);
let opener: Element | null = null;
/** Counts the dialogs: what an earlier one still waits for does not change a later one. */
let opened = 0;

/** Opens the dialog, and counts first what would change. */
export function ask(ref: AgentRef, button: ActionButton): Promise<void> {
  opener = document.activeElement;
  const isBulk = "filter" in button.action;
  current.value = { ref, button, isBulk, state: "asking", count: 0, failed: [] };
  return preview(++opened, ref, button.action);
}

/** What a filter selects, or the steps that a restart runs again. */
async function preview(mine: number, ref: AgentRef, action: Action): Promise<void> {
  if (!("filter" in action) && !definitionOf(action.do).repeats) return;
  let count = 0;
  let expected: number | undefined;
  const rows: Row[] = [];
  change(mine, { expected, error: undefined });
  await attempt(mine, async () => {
    const request = { action, reason: "Dry run", dryRun: true };
    for await (const { runsAgain, failed, ...page } of pages(mine, ref, request)) {
      const steps = runsAgain?.steps.map(({ name, kind }) => ({ id: name, error: kind }));
      rows.push(...(steps ?? page.rows ?? []));
      count += runsAgain?.count ?? page.count;
      expected = failed[0] ? undefined : count;
      change(mine, { count, rows: rows.slice(0, MAX_ROWS), error: failed[0]?.error });
    }
    change(mine, { expected });
  });
}

/** The step to begin from was changed. */
function changed(event: Event): void {
  const { ref, button, isBulk, state } = current.value ?? {};
  const { name, form } = event.target as HTMLInputElement;
  if (!ref || !button || !form || isBulk || state !== "asking" || !/^step/.test(name)) return;
  void preview(opened, ref, withFields(button, new FormData(form)));
}

/** The pages of the action, as long as its dialog is open. */
async function* pages(
  mine: number,
  ref: AgentRef,
  request: Pick<OperateRequest, "action" | "reason" | "dryRun">,
) {
  for await (const result of actedPages(client, ref, request)) {
    if (mine !== opened) return;
    yield result;
    if (mine !== opened) return;
  }
}

function change(mine: number, parts: Partial<Running>): void {
  if (mine === opened && current.value) current.value = { ...current.value, ...parts };
}

async function attempt(mine: number, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    const { state, isBulk, count = 0 } = current.value ?? {};
    change(mine, {
      error: error instanceof Error ? error.message : String(error),
      // What some pages have done stays done, and the number in the dialog is no longer right.
      state: state === "working" && isBulk && count > 0 ? "ended" : "asking",
    });
  }
}

async function run(form: HTMLFormElement): Promise<void> {
  const running = current.value;
  if (!running) return;
  const fields = new FormData(form);
  const { ref, button } = running;
  const mine = opened;
  await attempt(mine, async () => {
    const action = withFields(button, fields);
    change(mine, { state: "working", count: 0, failed: [], error: undefined });
    const reason = String(fields.get("reason"));
    for await (const result of pages(mine, ref, { action, reason })) {
      const { count, failed } = current.value ?? running;
      change(mine, {
        count: count + result.count,
        failed: [...failed, ...result.failed],
        outcome: result.outcome,
      });
    }
    change(mine, { state: "ended" });
    await refresh();
  });
}

/** The action with the fields that the dialog has asked for. */
function withFields({ action }: ActionButton, form: FormData): Action {
  if ("filter" in action) return action;
  const fields: Record<string, unknown> = {};
  for (const [name, [kind]] of asked(action)) {
    const text = String(form.get(name) ?? "").trim();
    // Undefined: the beginning.
    if (kind === "step") fields[name] = text ? { name: text } : form.get("step-from") || undefined;
    else if (text) fields[name] = kind === "json" ? jsonOf(text) : Date.parse(text);
  }
  return { ...action, ...fields };
}

/** Fields of an action that are no id. A payload is asked for where the approval takes one. */
function asked(action: Action) {
  const fields = Object.entries(definitionOf(action.do).fields);
  return fields.filter(([name, [kind]]) =>
    kind === "json" ? name in action : kind === "step" || kind === "time",
  );
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error("The payload is not JSON. Write a text in double quotes.");
  }
}

/** Pages of a bulk action that have not begun are not done. */
function close(): void {
  opened++;
  current.value = undefined;
  // An action may have removed the button.
  const target = opener?.isConnected ? opener : document.getElementById("main");
  (target as HTMLElement | null)?.focus();
}

export function ActionDialog() {
  const running = current.value;
  if (!running) return null;
  const { ref, button, state, isBulk, expected, count, failed, outcome, error } = running;
  const { do: verb, ...target } = button.action;
  const show = (dialog: HTMLDialogElement | null) => {
    if (dialog && !dialog.open) dialog.showModal();
  };
  const submit = (event: Event) => {
    event.preventDefault();
    void run(event.currentTarget as HTMLFormElement);
  };
  return html`<dialog ref=${show} onClose=${close} aria-labelledby="dialog-title">
    <form onSubmit=${submit} onChange=${changed}>
      <h2 id="dialog-title">${button.label}</h2>
      <div class="target"><p><b>${verb}</b> in ${ref.agent}/${ref.name}. ${definitionOf(verb).does}</p><${Value} of=${target} isOwn /></div>
      ${(isBulk || definitionOf(verb).repeats) && state === "asking" && html`<${Preview} of=${running} />`}
      ${state !== "ended" && html`<${Fields} ...${button} />`}
      ${state !== "ended" && html`<label>Reason<textarea name="reason" required maxlength="500" rows="2" autofocus></textarea></label>`}
      ${state === "working" && html`<p role="status">${isBulk ? `${count} of ${expected ?? "?"} done…` : "Working…"}</p>`}
      ${state === "ended" && html`<p role="status">${error === undefined ? outcomeText(outcome, count) : `${count} of ${expected} changed before the error. Choose the action again for the rest.`}</p>`}
      ${failed.length > 0 && html`<p class="problem">${failed.length} failed:</p><ul class="failed">${failed.slice(0, MAX_FAILED).map((each) => html`<li key=${each.id}>${each.id}: ${each.error}</li>`)}</ul>`}
      ${error !== undefined && html`<p class="problem" role="alert">${error}</p>`}
      <details><summary>Command line</summary><code>${commandOf(ref, button.action, button.expects)} --reason "..."</code></details>
      <menu>
        <button type="button" onClick=${close}>${{ asking: "Back", working: isBulk ? "Stop" : "Back", ended: "Close" }[state]}</button>
        ${state !== "ended" && html`<button type="submit" class=${definitionOf(verb).isDestructive ? "danger" : "primary"} disabled=${state === "working" || (isBulk && !expected)}>${button.label}${isBulk && expected ? ` (${expected})` : ""}</button>`}
      </menu>
    </form>
  </dialog>`;
}

/** What would change, and a warning where that is not what the finding has counted. */
function Preview({ of: { button, isBulk, expected, rows = [], count, error } }: { of: Running }) {
  const { expects = expected } = isBulk ? button : {};
  if (expected === undefined)
    return html`<p role="status">${error ? "" : `Counting… ${count}`}</p>`;
  return html`<p role="status">${expected} ${isBulk ? "would change" : "steps run again"}.</p>
    ${expected !== expects && html`<p class="problem" role="alert">The finding has counted ${expects}. Look at what would change, or load the report again.</p>`}
    <ul class="messages">${rows.map((each) => html`<li key=${each.id}>${each.id}${each.error && `: ${each.error.slice(0, MAX_TEXT)}`}</li>`)}${expected > rows.length && html`<li>and ${expected - rows.length} more</li>`}</ul>`;
}

function outcomeText(outcome: string | undefined, count: number): string {
  if (outcome === "unchanged") return "Nothing has changed.";
  if (outcome === "not-found") return "It does not exist any more.";
  return outcome === "failed" ? "It failed." : `Done: ${count} changed.`;
}

function Fields({ action }: ActionButton) {
  if ("filter" in action) return null;
  return asked(action).map(([name, [kind]]) => {
    if (kind === "json")
      return html`<label key=${name}>Payload, as JSON<textarea name=${name} rows="4" class="code"></textarea></label>`;
    if (kind === "step")
      return html`<label key=${name}>Begin at<select name="step-from">
          <option value="failed" selected=${"step" in action}>the step that failed, or at which it stands</option>
          <option value="" selected=${!("step" in action)}>its beginning</option>
        </select></label>
        <label>From the step (empty: as above)<input name=${name} /></label>`;
    return html`<label key=${name}>${name === "from" ? "From" : "To"}, in the zone of this browser<input name=${name} type="datetime-local" required /></label>`;
  });
}
