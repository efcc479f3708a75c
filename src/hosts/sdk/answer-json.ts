/** The JSON in the text of a reply. Pure. */

/** The JSON in a text (all of it, a fenced block, or the one object or list between words), or why there is none. */
export function jsonIn(text: string): { readonly value?: unknown; readonly problem?: string } {
  const alone = jsonAlone(text);
  const [only, ...others] = alone ? [alone] : valuesIn(withoutThoughts(text));
  if (!only) return { problem: "there is none in it that can be read" };
  return others.length === 0 ? only : { problem: "there are several pieces of it" };
}

/** The JSON that the whole text is, or its only fenced block. */
export function jsonAlone(text: string): { readonly value: unknown } | undefined {
  const said = withoutThoughts(text);
  const whole = parsed(said);
  if (whole) return whole;
  const fenced = blocksIn(said).flatMap((block) => parsed(block) ?? []);
  return fenced.length === 1 ? fenced[0] : undefined;
}

/** Some models write their thoughts before the answer, and not all providers separate the two. */
function withoutThoughts(text: string): string {
  return text.replace(/^\s*<think>.*?<\/think>/s, "");
}

/** The fenced blocks of Markdown: the closing fence has as many backticks as the opening one. */
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
 * Objects and lists in a text, each the largest at its place, up to two of them. Words may have brackets, too: what is parsed
 * in vain is limited to a few times the text.
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
