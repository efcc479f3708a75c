/** Reads the Markdown that models write, for providers that show another markup. In linear time: the text is a model's. */

/** A piece of text with one style. */
export type Span = {
  text: string;
  isBold?: boolean;
  isItalic?: boolean;
  isStruck?: boolean;
  isCode?: boolean;
  /** An `http:`, `https:` or `mailto:` URL. */
  href?: string;
};

export type Block =
  | { readonly kind: "code"; readonly text: string; readonly language: string }
  /** With aligned columns. */
  | { readonly kind: "table"; readonly text: string }
  /** One line. */
  | {
      readonly kind: "line";
      readonly spans: readonly Span[];
      /** As it was written. */
      readonly source: string;
      /** The level of a heading, from 1 to 6. */
      readonly level?: number;
    };

const FENCE = /^ {0,3}(`{3,}|~{3,})[ \t]*([\w+#.-]{0,40})[^`]*$/;
const HEADING = /^ {0,3}(#{1,6})[ \t]+(\S.*)$/;
const RULE = /^ {0,3}([-*_])([ \t]*\1){2,}[ \t]*$/;
const ITEM = /^([ \t]{0,20})[-*+][ \t]+(?:\[([ xX])\][ \t]+)?(.*)$/;
const QUOTE = /^ {0,3}>[ \t]?(.*)$/;

export function parseMarkdown(text: string): Block[] {
  const lines = text.split(/\r?\n/);
  const blocks: Block[] = [];
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at] ?? "";
    const [, fence, language = ""] = FENCE.exec(line) ?? [];
    if (fence !== undefined) {
      const start = at + 1;
      do at++;
      while (at < lines.length && !closes(lines[at] ?? "", fence));
      blocks.push({ kind: "code", text: lines.slice(start, at).join("\n"), language });
    } else if (line.includes("|") && isDivider(lines[at + 1])) {
      const rows = [line];
      at++;
      while (lines[at + 1]?.includes("|")) rows.push(lines[++at] ?? "");
      blocks.push({ kind: "table", text: alignTable(rows) });
    } else {
      blocks.push(parseLine(line));
    }
  }
  return blocks;
}

function closes(line: string, fence: string): boolean {
  const text = line.trim();
  return text.length >= fence.length && text === (fence[0] ?? "").repeat(text.length);
}

/** Whether the line is below the head of a table, e.g. `|---|:-:|`. */
const isDivider = (line = "") =>
  line.includes("|") && splitRow(line).every((cell) => /^:?-+:?$/.test(cell));

function splitRow(row: string): string[] {
  const inner = row.trim().replace(/^\|/, "").replace(/\|$/, "");
  return inner.split(/(?<!\\)\|/).map((cell) => cell.trim());
}

function parseLine(source: string): Block {
  const [, marks, title = ""] = HEADING.exec(source) ?? [];
  if (marks !== undefined) {
    const spans = parseSpans(title.trim().replace(/ #+$/, ""));
    const bold = merge(spans.map((span) => ({ ...span, isBold: true })));
    return { kind: "line", source, spans: bold, level: marks.length };
  }
  if (RULE.test(source)) return { kind: "line", source, spans: [{ text: "———" }] };
  const [, indent, box, item] = ITEM.exec(source) ?? [];
  if (item !== undefined) {
    const bullet = box === undefined ? "•" : box === " " ? "☐" : "☑";
    return { kind: "line", source, spans: [{ text: `${indent}${bullet} ` }, ...parseSpans(item)] };
  }
  const [, quoted] = QUOTE.exec(source) ?? [];
  const spans = quoted === undefined ? parseSpans(source) : [{ text: "> " }, ...parseSpans(quoted)];
  return { kind: "line", source, spans };
}

function alignTable(rows: readonly string[]): string {
  const cells = rows.map((row) => splitRow(row).map((cell) => plainText(parseSpans(cell))));
  const widths: number[] = [];
  for (const row of cells)
    for (const [column, cell] of row.entries())
      widths[column] = Math.max(widths[column] ?? 0, [...cell].length);
  const pad = (cell: string, column: number) =>
    cell + " ".repeat(Math.max(0, (widths[column] ?? 0) - [...cell].length));
  const [head = "", ...body] = cells.map((row) => row.map(pad).join("  ").trimEnd());
  return [head, widths.map((width) => "-".repeat(width)).join("  "), ...body].join("\n");
}

function plainText(spans: readonly Span[]): string {
  return spans
    .map(({ text, href }) => (href === undefined || href === text ? text : `${text} (${href})`))
    .join("");
}

const ESCAPE = /\\([!-/:-@[-`{-~])/y;
const TICKS = /`+/y;
const LINK =
  /!?\[((?:[^\]\\\n]|\\.){0,1000})\]\([ \t]*<?((?:[^()\s<>]|\([^()\s<>]{0,500}\)){1,2000})>?(?:[ \t]+"[^"\n]{0,300}")?[ \t]*\)/y;
const URL_ALONE = /https?:\/\/[^\s<>*`]{1,2000}/y;
const MARKS = /\*{1,3}|_{1,3}|~~/y;
const SAFE = /^(https?:\/\/|mailto:)/i;
/** Characters that begin something. */
const PLAIN = /[^\\`![h*_~]+|./sy;

type Style = "isBold" | "isItalic" | "isStruck";
const STYLES: Readonly<Record<string, readonly Style[]>> = {
  "*": ["isItalic"],
  _: ["isItalic"],
  "**": ["isBold"],
  __: ["isBold"],
  "***": ["isBold", "isItalic"],
  ___: ["isBold", "isItalic"],
  "~~": ["isStruck"],
};

/** The spans of one line. */
function parseSpans(line: string): Span[] {
  const spans: Span[] = [];
  /** Marks that may begin a style, with the index of their span. */
  const open = new Map<string, number>();
  /** Lengths of backticks that no later ones close. */
  const unclosed = new Set<number>();
  let at = 0;
  const read = (pattern: RegExp) => {
    pattern.lastIndex = at;
    return pattern.exec(line);
  };
  while (at < line.length) {
    const [whole, span] = readLiteral(line, at, read, unclosed) ?? [];
    if (whole !== undefined && span) {
      spans.push(span);
      at += whole.length;
      continue;
    }
    const [marks] = read(MARKS) ?? [];
    if (marks !== undefined) {
      const before = line[at - 1] ?? "";
      at += marks.length;
      readMarks(marks, before, line[at] ?? "", spans, open);
      continue;
    }
    const [text = ""] = read(PLAIN) ?? [];
    spans.push({ text });
    at += text.length;
  }
  return merge(spans);
}

/** What has no styles in it: an escaped character, code, a link. */
function readLiteral(
  line: string,
  at: number,
  read: (pattern: RegExp) => RegExpExecArray | null,
  unclosed: Set<number>,
): readonly [whole: string, span: Span] | undefined {
  const escaped = read(ESCAPE);
  if (escaped) return [escaped[0], { text: escaped[1] ?? "" }];
  const ticks = read(TICKS)?.[0];
  if (ticks !== undefined) {
    const start = at + ticks.length;
    const end = unclosed.has(ticks.length) ? -1 : findTicks(line, start, ticks.length);
    if (end === -1) {
      unclosed.add(ticks.length);
      return [ticks, { text: ticks }];
    }
    const code = line.slice(start, end);
    return [ticks + code + ticks, { text: code.trim() || code, isCode: true }];
  }
  const link = read(LINK) ?? read(URL_ALONE);
  if (!link) return undefined;
  const [whole, text = whole, href = whole] = link;
  if (!SAFE.test(href)) return [whole, { text: whole }];
  return [whole, { text: (text === whole ? text : parseLabel(text)) || href, href }];
}

function findTicks(line: string, from: number, length: number): number {
  for (let at = line.indexOf("`", from); at !== -1; at = line.indexOf("`", at)) {
    let end = at;
    while (line[end] === "`") end++;
    if (end - at === length) return at;
    at = end;
  }
  return -1;
}

/** A label without its own markup. */
const parseLabel = (text: string) => text.replace(/\\(.)|[*`]+|~~/g, "$1");

function readMarks(
  marks: string,
  before: string,
  after: string,
  spans: Span[],
  open: Map<string, number>,
): void {
  const isIntraword = (char: string) => marks[0] === "_" && /[\p{L}\p{N}]/u.test(char);
  let rest = marks;
  if (/\S/.test(before) && !isIntraword(after)) {
    for (const length of [3, 2, 1]) {
      const mark = rest.slice(0, length);
      const opener = mark.length === length ? open.get(mark) : undefined;
      if (opener === undefined) continue;
      const styles = Object.fromEntries((STYLES[mark] ?? []).map((style) => [style, true]));
      // Marks between them are text.
      for (const [other, index] of open) if (index >= opener) open.delete(other);
      spans[opener] = { text: "" };
      for (let index = opener + 1; index < spans.length; index++)
        Object.assign(spans[index] as Span, styles);
      rest = rest.slice(length);
    }
  }
  if (rest === "") return;
  if (/\S/.test(after) && !isIntraword(before) && STYLES[rest]) open.set(rest, spans.length);
  spans.push({ text: rest });
}

/** Joins neighbours of the same style. */
function merge(spans: readonly Span[]): Span[] {
  const merged: Span[] = [];
  for (const span of spans) {
    const last = merged.at(-1);
    const { text, ...style } = span;
    if (text === "") continue;
    if (last && span.href === undefined && isSameStyle(last, style)) last.text += text;
    else merged.push({ ...span });
  }
  return merged;
}

function isSameStyle(last: Span, style: Omit<Span, "text">): boolean {
  const names = ["isBold", "isItalic", "isStruck", "isCode", "href"] as const;
  return names.every((name) => last[name] === style[name]);
}
