/** The JSON that the text of a reply is. Pure. */

/**
 * The JSON that the whole text is, or its only fenced block, after closed thoughts; undefined for any other text. JSON
 * between words may be a draft, or a part of an answer that was cut off.
 */
export function jsonIn(text: string): { readonly value: unknown } | undefined {
  const said = withoutThoughts(text);
  const whole = parsed(text) ?? parsed(said);
  if (whole) return whole;
  const [block, ...others] = blocksIn(said);
  // A thought that is not closed may contain a draft.
  const isThought = OPENING.test(said.split("```", 1)[0] ?? "");
  return block === undefined || others.length > 0 || isThought ? undefined : parsed(block);
}

/** Some models write their thoughts before the answer, and not all providers separate the two. */
const THOUGHT = "think(?:ing)?|reasoning";
const CLOSED = new RegExp(`^\\s*<(${THOUGHT})>[^]*?</\\1>`, "i");
/** The template of some models opens the thought in the prompt. */
const UNOPENED = new RegExp(`^[^]*?</(?:${THOUGHT})>`, "i");
const OPENING = new RegExp(`<(?:${THOUGHT})>`, "i");

function withoutThoughts(text: string): string {
  let said = text;
  const [unopened] = UNOPENED.exec(said) ?? [];
  if (unopened && !OPENING.test(unopened)) said = said.slice(unopened.length);
  for (let closed = CLOSED.exec(said); closed; closed = CLOSED.exec(said)) {
    const [thought, tag = ""] = closed;
    // The inner one of two thoughts was closed.
    if (OPENING.test(thought.trimStart().slice(tag.length + 2))) return said;
    said = said.slice(thought.length);
  }
  return said;
}

/** The fenced blocks of Markdown: the closing fence has as many backticks as the opening one. One that is open counts. */
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
  return fence === "" ? blocks : [...blocks, ""];
}

const FENCE = /^\s{0,3}(`{3,})(.*)$/;

function parsed(text: string): { readonly value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) };
  } catch {
    return undefined;
  }
}
