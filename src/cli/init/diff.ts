/** Changes of a text by offsets, and the unified diff that says the same. */

import { structuredPatch } from "diff";

export type TextEdit = { readonly from: number; readonly to: number; readonly text: string };

/** @param edits that do not overlap */
export function edited(text: string, edits: readonly TextEdit[]): string {
  return edits
    .toSorted((a, b) => a.from - b.from || a.to - b.to)
    .reduceRight((all, each) => all.slice(0, each.from) + each.text + all.slice(each.to), text);
}

/**
 * As `git apply` and `patch -p1` take it.
 * @param file its path from the folder of the project
 */
export function unifiedDiff(file: string, text: string, edits: readonly TextEdit[]): string {
  const [from, to] = [`a/${file}`, `b/${file}`];
  const { hunks } = structuredPatch(from, to, text, edited(text, edits), "", "", { context: 3 });
  const lines = hunks.flatMap(({ oldStart, oldLines, newStart, newLines, lines }) => [
    `@@ -${oldStart},${oldLines} +${newStart},${newLines} @@`,
    ...lines,
  ]);
  return [`--- ${from}`, `+++ ${to}`, ...lines, ""].join("\n");
}
