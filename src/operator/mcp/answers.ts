/** Answers of the tools of operators: bounded, and errors that the caller may read. */

import type { CallToolResult } from "@modelcontextprotocol/server";
import { failureOf } from "../../core/failures.ts";
import { byteLength } from "../../core/json.ts";
import { InvalidOptionError } from "../../core/options/options.ts";
import { boundedJson } from "../../engine/operated/effect.ts";
import { ScheduleSyntaxError } from "../../scheduler/language/errors.ts";
import { type OperatorClient, OperatorError } from "../client.ts";
import type { Page, PageOptions, Trace } from "../protocol.ts";

/** Kept for the fields of an answer beside its list. */
const RESERVE = 8_192;
const MAX_READS = 5;

/**
 * A page that fits: with fewer items and the cursor to go on, and items without their largest fields, whose names are in
 * `omitted`.
 */
export async function pageWithin<Item>(
  maxBytes: number,
  page: PageOptions,
  read: (page: PageOptions) => Promise<Page<Item>>,
): Promise<object> {
  let asked = page;
  for (let reads = 1; ; reads++) {
    const answer = await read(asked);
    if (bytesOf(answer) <= maxBytes) return answer;
    const items = answer.items.map(boundedJson);
    const limit = countWithin(items, maxBytes);
    if (limit === items.length) return { ...answer, items, note: OMITTED };
    // The cursor of a shorter page. Items that came meanwhile may need another read.
    if (limit === 0 || reads === MAX_READS) throw tooLarge(maxBytes);
    asked = { ...page, limit };
  }
}

const OMITTED =
  "The largest fields of large items are left out: `omitted` names them. Call get for one item.";

/** A trace that fits: its first spans. */
export function traceWithin(maxBytes: number, trace: Trace): object {
  if (bytesOf(trace) <= maxBytes) return trace;
  const all = trace.spans.map(boundedJson);
  const spans = all.slice(0, countWithin(all, maxBytes));
  const note = `${spans.length} of ${all.length} spans. ${ELSEWHERE}`;
  return { ...trace, spans, note };
}

const ELSEWHERE = "The dashboard and `npx perdure show` have the rest.";

const bytesOf = (value: unknown) => byteLength(JSON.stringify(value));

/** How many of the first items fit. */
function countWithin(items: readonly unknown[], maxBytes: number): number {
  let left = maxBytes - RESERVE;
  const end = items.findIndex((item) => {
    left -= bytesOf(item) + 1;
    return left < 0;
  });
  return end < 0 ? items.length : end;
}

const tooLarge = (maxBytes: number) =>
  new NotFoundError(
    `The answer is larger than ${maxBytes} bytes. Pass a lower limit, or a narrower filter.`,
  );

/** The part of an answer that fits: without its largest fields, if there is no other way. */
function within(maxBytes: number, answer: unknown): string {
  const json = JSON.stringify(answer);
  if (byteLength(json) <= maxBytes) return json;
  const rest = boundedJson(answer);
  if (typeof rest !== "object" || rest === null) throw tooLarge(maxBytes);
  const note = `Too large: \`omitted\` names the fields that are left out. ${ELSEWHERE}`;
  return JSON.stringify({ ...rest, note });
}

class NotFoundError extends Error {}

export function found<Item>(item: Item | null, collection: string, id: string): Item {
  if (item === null)
    throw new NotFoundError(`Nothing in ${collection} has the id ${JSON.stringify(id)}.`);
  return item;
}

/** Whether the caller may read an error: its own mistake, or an answer of the API. */
function isForCaller(error: unknown): boolean {
  return [OperatorError, NotFoundError, InvalidOptionError, ScheduleSyntaxError].some(
    (each) => error instanceof each,
  );
}

export async function answered(
  { maxOutputBytes }: OperatorToolContext,
  call: () => Promise<unknown>,
): Promise<CallToolResult> {
  try {
    const json = within(maxOutputBytes, await call());
    return { content: [{ type: "text", text: json }], structuredContent: JSON.parse(json) };
  } catch (error) {
    const { name, message } = failureOf(error);
    const isShown = isForCaller(error);
    if (!isShown) console.error(JSON.stringify({ perdure: "mcp:failed", name, message }));
    const shown = isShown ? message : "The operator API failed. Try again later.";
    return { content: [{ type: "text", text: shown }], isError: true };
  }
}

export type OperatorToolContext = {
  readonly server: { readonly name: string; readonly version: string };
  readonly client: OperatorClient;
  /** Whether the tools that change something are there. */
  readonly write: boolean;
  readonly maxOutputBytes: number;
};
