/** Small elements that views share: times, status pills, and values of any shape. */

import type { Gauge } from "../../../engine/operated/list.ts";
import { gaugeText } from "../../gauge.ts";
import { html } from "./html.ts";
import { signal } from "./signals.ts";
import { linkTo, now, part, times } from "./state.ts";
import { agoText, localText } from "./text/times.ts";

export function Time({ at }: { at: number | null | undefined }) {
  if (typeof at !== "number" || !Number.isFinite(at)) return html`<span class="quiet">none</span>`;
  const utc = new Date(at).toISOString();
  const shown =
    times.current.value === "utc"
      ? utc
      : times.current.value === "local"
        ? localText(at)
        : agoText(at, now.value);
  return html`<time datetime=${utc} title=${`${localText(at)} (${utc})`}>${shown}</time>`;
}

const GOOD = /^(completed|complete|approved|accepted|delivered|active|healthy|done)$/;
const BAD =
  /^(error|errored|dead|disabled|failing|failed|refused|invalid|not-found|unreachable|rejected|expired)$/;
const BUSY = /^(warning|full|closed|running|waiting|pending|queued|started|waitingForPause)$/;

/** A status by its word, a colour, and a shape for those who do not see the colour. */
export function Status({ of }: { of: string }) {
  const kind = GOOD.test(of) ? "good" : BAD.test(of) ? "bad" : BUSY.test(of) ? "busy" : "idle";
  const shape = { good: "●", bad: "▲", busy: "◐", idle: "○" }[kind];
  return html`<span class=${`status ${kind}`}><span aria-hidden="true">${shape}</span> ${of}</span>`;
}

/** How much of an amount is used. From 80 percent on it has another colour. */
export function Meter({ of }: { of: Gauge }) {
  const { used, amount, allowed = amount } = of;
  return html`<meter aria-hidden="true" max=${allowed} high=${0.8 * allowed} optimum="0" value=${used} /> ${gaugeText(of)}`;
}

/** What was copied last: a button says so, and a live region of the page. */
export const copied = signal("");

export function Copy({ text }: { text: string }) {
  const copy = async () => {
    // Without a secure connection there is no clipboard.
    const copying = navigator.clipboard?.writeText(text) ?? Promise.reject();
    copied.value = await copying.then(
      () => text,
      () => "",
    );
  };
  return html`<button class="copy" onClick=${copy} aria-label=${`Copy ${text}`}>${copied.value === text ? "Copied" : "Copy"}</button>`;
}

/** Characters of one text. */
export const MAX_TEXT = 20_000;
const MAX_FIELDS = 200;
const IS_TIME = /(At|[Uu]ntil|Occurrences|^at|^since|^next|For)$/;
const IS_STATUS = /^(status|state|verdict|outcome)$/;
/** What is read first. */
const FIRST = /^(status|state|verdict|outcome|error|lastError|reason|title|output)$/;
/** Fields with the id of an item of another view. */
const LINKS: Readonly<Record<string, string>> = {
  submissionId: "submissions",
  workflowId: "workflows",
  approvalId: "approvals",
  taskId: "tasks",
  deliveryId: "deliveries",
  thread: "threads",
};

/** A field of ours in words: `createdAt` is "created at". */
const labelOf = (key: string) => key.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);

type Shown = {
  readonly of: unknown;
  readonly name?: string;
  /** An item or an action of ours, whose fields are put in order, and have links. */
  readonly isOwn?: boolean;
};

/** Any JSON: the fields of an object, the items of a list, a text as it is. */
export function Value({ of, name = "", isOwn = false }: Shown): unknown {
  if (of === null || of === undefined) return html`<span class="quiet">none</span>`;
  if (typeof of === "number" && IS_TIME.test(name) && of > 1e11) return html`<${Time} at=${of} />`;
  if (IS_STATUS.test(name) && typeof of === "string") return html`<${Status} of=${of} />`;
  if (typeof of !== "object") {
    const shown = String(of).slice(0, MAX_TEXT);
    const view = LINKS[name];
    if (view && view !== part("view"))
      return html`<a ...${linkTo({ view, id: shown })}>${shown}</a>`;
    return html`<span class=${/error$/i.test(name) ? "text problem" : "text"}>${shown}</span>`;
  }
  if (Array.isArray(of) && of.every((each) => typeof each !== "object")) {
    if (IS_TIME.test(name))
      return of.map((at, nth) => html`${nth > 0 && ", "}<${Time} at=${at} />`);
    return html`<span class="text">${of.join(", ").slice(0, MAX_TEXT) || "none"}</span>`;
  }
  const fields = Object.entries(of).filter(([, value]) => value !== undefined);
  if (fields.length === 0) return html`<span class="quiet">${isOwn ? "all" : "empty"}</span>`;
  if (isOwn) fields.sort(([a], [b]) => Number(FIRST.test(b)) - Number(FIRST.test(a)));
  return html`<dl>
    ${fields
      .slice(0, MAX_FIELDS)
      .map(
        ([key, value]) =>
          html`<div key=${key}><dt>${isOwn ? labelOf(key) : key}</dt><dd><${Value} of=${value} name=${isOwn || typeof value === "number" ? key : ""} /></dd></div>`,
      )}
  </dl>`;
}

/** The head of a table. */
export function Head({ of }: { of: readonly string[] }) {
  return html`<thead><tr>${of.map((title) => html`<th key=${title} scope="col">${title}</th>`)}</tr></thead>`;
}

/** The beginning of a text, in one line. */
export function short(text: unknown, length = 80): string {
  const line = (typeof text === "string" ? text : (JSON.stringify(text) ?? "")).replace(
    /\s+/g,
    " ",
  );
  return line.length > length ? `${line.slice(0, length)}…` : line;
}
