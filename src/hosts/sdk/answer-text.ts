/** Answers that come as a text: the text of a reply, and the JSON in it. Pure. */

import type { UIMessage } from "ai";
import { toolOf } from "./reply.ts";

/**
 * What a reply comes to: its text after the last call of a tool.
 *
 * @param from parts before this one were said by an earlier attempt
 */
export function textOf(reply: Pick<UIMessage, "parts"> | undefined, from = 0): string {
  const parts = reply?.parts.slice(from) ?? [];
  const after = parts.slice(parts.findLastIndex((part) => toolOf(part) !== undefined) + 1);
  return after.map((part) => (part.type === "text" ? part.text : "")).join("");
}

/** A value that JSON was found for, or why none was. */
type Found =
  | { readonly value: unknown; readonly problem?: undefined }
  | { readonly value?: undefined; readonly problem: string };

/** The JSON in a text: all of it, a fenced block, or the one object or list that stands in the middle of words. */
export function jsonIn(text: string): Found {
  const alone = jsonAlone(text);
  const [only, ...others] = alone ? [alone] : valuesIn(withoutThoughts(text));
  if (!only) return { problem: "there is none in it that can be read" };
  return others.length === 0 ? only : { problem: "there are several pieces of it" };
}

/** The JSON that a text is, or that is the one block of it between fences. */
export function jsonAlone(text: string): { readonly value: unknown } | undefined {
  const said = withoutThoughts(text);
  const whole = parsed(said);
  if (whole) return whole;
  const fenced = blocksIn(said).flatMap((block) => parsed(block) ?? []);
  return fenced.length === 1 ? fenced[0] : undefined;
}

/** Some models think aloud before they answer, and not all providers tell the two apart. */
function withoutThoughts(text: string): string {
  return text.replace(/^\s*<think>.*?<\/think>/s, "");
}

/** What stands between the fences of Markdown: lines of backticks, of which the second has as many as the first. */
function blocksIn(text: string): string[] {
  const blocks: string[] = [];
  let fence = "";
  let block: string[] = [];
  for (const line of text.split("\n")) {
    const [, ticks = "", rest = ""] = FENCE.exec(line) ?? [];
    if (fence === "") fence = rest.includes("`") ? "" : ticks;
    else if (ticks === fence && rest.trim() === "") {
      blocks.push(block.join("\n"));
      [fence, block] = ["", []];
    } else block.push(line);
  }
  return blocks;
}

const FENCE = /^\s{0,3}(`{3,})(.*)$/;

function parsed(text: string): { readonly value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) };
  } catch {
    return undefined;
  }
}

/**
 * Objects and lists in a text, each the largest at its place, up to two of
 * them. Words may have brackets of their own: what is read in vain is limited
 * to a few times the text.
 */
function valuesIn(text: string): { readonly value: unknown }[] {
  const found: { readonly value: unknown }[] = [];
  let left = text.length * MAX_READS;
  for (let at = 0; at < text.length && found.length < 2 && left > 0; at++) {
    if (text[at] !== "{" && text[at] !== "[") continue;
    const end = endOf(text, at);
    const value = end === undefined ? undefined : parsed(text.slice(at, end));
    if (end === undefined || !value) left -= (end ?? text.length) - at;
    else {
      found.push(value);
      at = end - 1;
    }
  }
  return found;
}

const MAX_READS = 16;

/** Where the bracket that opens at `start` is closed. */
function endOf(text: string, start: number): number | undefined {
  let depth = 0;
  let isInString = false;
  for (let at = start; at < text.length; at++) {
    const char = text[at];
    if (isInString && char === "\\") at++;
    else if (char === '"') isInString = !isInString;
    else if (isInString) continue;
    else if (char === "{" || char === "[") depth++;
    else if ((char === "}" || char === "]") && --depth === 0) return at + 1;
  }
  return undefined;
}
