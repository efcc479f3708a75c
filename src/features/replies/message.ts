/**
 * The message of a reply: the text of an event, within the provider's limit, and what else the provider takes.
 *
 * An event is a text, `{ text, ... }` with fields of the provider, the event of a submission's end (the text is the output, or
 * one sentence where there is none), or that of a requested approval (the text is the title, with the links).
 */

import { preview } from "../../core/json.ts";
import { invalidMessage, isPlainObject, unknownOptionMessage } from "../../core/options/options.ts";
import type { AdapterContext, Delivery } from "../../outbox/destinations/adapter.ts";
import { UndeliverableError } from "../../outbox/errors.ts";

/** The text for a person about a submission without an output. The reason stays in the agent: it may name internals. */
const ENDS: Readonly<Record<string, string>> = {
  error: "Sorry, this request failed.",
  aborted: "This request was cancelled.",
  skipped: "This request was not run.",
};
const EMPTY = "The answer is empty.";
const PARTIAL = "\n\n[The answer is incomplete.]";
/** Finish reasons of a whole answer. */
const WHOLE: ReadonlySet<string> = new Set(["stop", "tool-calls"]);
const CUT = "\n[cut]";
/** Control characters but for tab and line feed: some providers refuse them. */
const CONTROLS = /(?![\t\n])\p{Cc}/gu;

/** How a provider takes messages. */
export type MessageRules = {
  /** The stored kind of destination. */
  readonly kind: string;
  /** UTF-16 code units of a text, after `render`. */
  readonly maxLength: number;
  /** Fields of an event that are passed on beside `text`. */
  readonly fields: readonly string[];
  /** The text in the provider's markup. */
  readonly render?: (text: string, options: RenderOptions) => Rendered;
  /** Ends a text that was cut within something that `render` has written. No longer than what it gets. */
  readonly repair?: (text: string) => string;
};

type RenderOptions = {
  /** Otherwise it is JSON, or the app has written it in the provider's own markup. */
  readonly isMarkdown: boolean;
  readonly extras: Readonly<Record<string, unknown>>;
};

type Rendered = {
  readonly text: string;
  /** Ranges of the text, in UTF-16 code units. */
  readonly entities?: readonly Entity[];
};

export type Entity = { readonly type: string; readonly offset: number; readonly length: number };

export type Message = {
  readonly text: string;
  /** The other fields of the event. */
  readonly extras: Readonly<Record<string, unknown>>;
  /** The length of the text where it was longer than the limit. */
  readonly cutFrom: number | undefined;
};

/** What is wrong with an event, as a sentence; undefined for a valid one. */
export function problemOfMessage(event: unknown, { fields }: MessageRules): string | undefined {
  if (typeof event === "string") return problemOfText("event", event);
  if (!isPlainObject(event)) {
    return invalidMessage("event", preview(event), "expected a text, or an object with text");
  }
  if (isEnd(event) || isRequest(event)) return undefined;
  const unknown = Object.keys(event).find((name) => name !== "text" && !fields.includes(name));
  const valid = ["text", ...fields].join(", ");
  if (unknown !== undefined) return unknownOptionMessage(unknown, "event", valid);
  return problemOfText("event.text", event.text);
}

function problemOfText(name: string, text: unknown): string | undefined {
  if (typeof text === "string" && text.replace(CONTROLS, "").trim() !== "") return undefined;
  return invalidMessage(name, preview(text), "expected a text that is not empty");
}

/** @throws UndeliverableError for an event that is no message */
export function messageOf({ event }: Delivery, rules: MessageRules): Message {
  const problem = problemOfMessage(event, rules);
  if (problem) throw new UndeliverableError(problem);
  const { text: given, extras, isMarkdown } = contentOf(event as string | Record<string, unknown>);
  const clean = given.toWellFormed().replace(CONTROLS, "");
  // Markup makes a text shorter at most by half, but for URLs.
  const most = 4 * rules.maxLength;
  const { text, entities = [] } = rules.render?.(clean.slice(0, most), { isMarkdown, extras }) ?? {
    text: clean,
  };
  const isLong = text.length > rules.maxLength || clean.length > most;
  const kept = isLong ? cut(text, rules) : text;
  const shown = entities.filter(({ offset, length }) => offset + length <= kept.length);
  return {
    text: kept,
    extras: shown.length > 0 ? { ...extras, entities: shown } : extras,
    cutFrom: isLong ? Math.max(text.length, clean.length) : undefined,
  };
}

/** Reports that a message was cut, once it was delivered. */
export function reportCut(
  { reportProblem }: Pick<AdapterContext, "reportProblem">,
  { id }: Delivery,
  { cutFrom }: Message,
  { kind, maxLength }: MessageRules,
): void {
  if (cutFrom === undefined) return;
  const message = `A message of ${cutFrom} characters was cut to ${maxLength}, the limit of ${kind}`;
  const ids = { id, kind, length: cutFrom, limit: maxLength };
  reportProblem({ type: "outbox:cut", level: "warn", message, ids });
}

function cut(text: string, { maxLength, repair }: MessageRules): string {
  const kept = text.slice(0, maxLength - CUT.length).replace(/[\uD800-\uDBFF]$/, "");
  return (repair?.(kept) ?? kept) + CUT;
}

function contentOf(event: string | Record<string, unknown>) {
  if (typeof event === "string") return { text: event, extras: {}, isMarkdown: true };
  if (isEnd(event)) {
    const { data } = event;
    return { text: textOfEnd(data), extras: {}, isMarkdown: typeof data.output === "string" };
  }
  if (isRequest(event)) return { text: textOfRequest(event.data), extras: {}, isMarkdown: false };
  const { text, ...extras } = event;
  return { text: text as string, extras, isMarkdown: true };
}

type End = {
  readonly data: {
    readonly status: string;
    readonly output?: unknown;
    readonly finishReason?: string;
  };
};

/** Whether it is a `SubmissionEvent`. */
function isEnd(event: Record<string, unknown>): event is Record<string, unknown> & End {
  const { type, data } = event;
  return (
    typeof type === "string" && isPlainObject(data) && type === `submission.${String(data.status)}`
  );
}

type Request = {
  readonly data: {
    readonly title: string | null;
    readonly refusal?: { readonly problem: string };
    readonly links?: { readonly grant: string; readonly reject: string };
  };
};

/** Whether it is an `ApprovalRequestEvent`. */
function isRequest(event: Record<string, unknown>): event is Record<string, unknown> & Request {
  return event.type === "approval.requested" && isPlainObject(event.data);
}

function textOfRequest({ title, refusal, links }: Request["data"]): string {
  const parts = [title ?? "An approval is requested."];
  if (refusal) parts.push(`The last answer was refused: ${refusal.problem}`);
  if (links) parts.push(`Approve: ${links.grant}\nReject: ${links.reject}`);
  return parts.join("\n\n");
}

function textOfEnd({ status, output, finishReason = "stop" }: End["data"]): string {
  const sentence = ENDS[status];
  if (sentence !== undefined) return sentence;
  const text = typeof output === "string" ? output : JSON.stringify(output ?? null, null, 2);
  return (text.trim() === "" ? EMPTY : text) + (WHOLE.has(finishReason) ? "" : PARTIAL);
}
