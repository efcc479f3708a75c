/** Changes of a text by offsets, and the unified diff that says the same. */

export type TextEdit = { readonly from: number; readonly to: number; readonly text: string };

const CONTEXT = 3;
const NO_NEWLINE = "\n\\ No newline at end of file";

/** @param edits that do not overlap */
export function edited(text: string, edits: readonly TextEdit[]): string {
  return inOrder(edits).reduceRight(
    (all, each) => all.slice(0, each.from) + each.text + all.slice(each.to),
    text,
  );
}

/**
 * As `git apply` and `patch -p1` take it.
 * @param file its path from the folder of the project
 */
export function unifiedDiff(file: string, text: string, edits: readonly TextEdit[]): string {
  const lines = linesOf(text);
  const hunks: string[] = [];
  let group: Change[] = [];
  let shift = 0;
  const changes = changesOf(text, edits);
  for (const [index, change] of changes.entries()) {
    group.push(change);
    const next = changes[index + 1];
    if (next && next.at - (change.at + change.removed.length) <= 2 * CONTEXT) continue;
    hunks.push(hunkOf(lines, group, shift));
    for (const { added, removed } of group) shift += added.length - removed.length;
    group = [];
  }
  return [`--- a/${file}`, `+++ b/${file}`, ...hunks, ""].join("\n");
}

/** Lines that take the place of others. `at`: the index of the first one. */
type Change = {
  readonly at: number;
  readonly removed: readonly string[];
  readonly added: readonly string[];
};

function changesOf(text: string, edits: readonly TextEdit[]): Change[] {
  const lineStart = (at: number) => text.slice(0, at).lastIndexOf("\n") + 1;
  const lineEnd = (at: number) => (text.indexOf("\n", at) + 1 || text.length + 1) - 1;
  const spans: { from: number; to: number; edits: TextEdit[] }[] = [];
  for (const edit of inOrder(edits)) {
    const last = spans.at(-1);
    const to = lineEnd(edit.to);
    if (last && lineStart(edit.from) <= last.to) {
      last.to = Math.max(last.to, to);
      last.edits.push(edit);
    } else spans.push({ from: lineStart(edit.from), to, edits: [edit] });
  }
  const changes = spans.map(({ from, to, edits: own }) => {
    const isLast = to >= text.length;
    const moved = own.map((each) => ({ ...each, from: each.from - from, to: each.to - from }));
    const before = text.slice(from, to);
    const after = edited(before, moved);
    const cut = (part: string) => (isLast ? linesOf(part) : part.split("\n"));
    return trimmed(text.slice(0, from).split("\n").length - 1, cut(before), cut(after));
  });
  return changes.filter(({ removed, added }) => removed.length + added.length > 0);
}

/** Without the lines that begin and end both. */
function trimmed(at: number, removed: string[], added: string[]): Change {
  let first = 0;
  while (first < removed.length && removed[first] === added[first]) first++;
  let last = 0;
  const most = Math.min(removed.length, added.length) - first;
  while (last < most && removed.at(-1 - last) === added.at(-1 - last)) last++;
  const cut = (lines: string[]) => lines.slice(first, lines.length - last);
  return { at: at + first, removed: cut(removed), added: cut(added) };
}

function hunkOf(lines: readonly string[], changes: readonly Change[], shift: number): string {
  const from = Math.max(0, (changes[0] as Change).at - CONTEXT);
  const out: string[] = [];
  let at = from;
  let growth = 0;
  const keep = (until: number) => {
    for (; at < Math.min(until, lines.length); at++) out.push(` ${lines[at]}`);
  };
  for (const change of changes) {
    keep(change.at);
    out.push(
      ...change.removed.map((line) => `-${line}`),
      ...change.added.map((line) => `+${line}`),
    );
    at += change.removed.length;
    growth += change.added.length - change.removed.length;
  }
  keep(at + CONTEXT);
  const count = at - from;
  const start = (length: number, by: number) => (length === 0 ? from : from + 1) + by;
  const head = `@@ -${start(count, 0)},${count} +${start(count + growth, shift)},${count + growth} @@`;
  return [head, ...out].join("\n");
}

function linesOf(text: string): string[] {
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  else lines.push(`${lines.pop()}${NO_NEWLINE}`);
  return lines;
}

function inOrder(edits: readonly TextEdit[]): TextEdit[] {
  return [...edits].sort((a, b) => a.from - b.from || a.to - b.to);
}
