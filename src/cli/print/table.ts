/** Rows as a table that fits the terminal. In a pipe nothing is cut. */

import { stripVTControlCharacters } from "node:util";
import Table from "cli-table3";
import { paint } from "./text.ts";

const BARE = Object.fromEntries(
  [
    ...[
      "top",
      "top-mid",
      "top-left",
      "top-right",
      "bottom",
      "bottom-mid",
      "bottom-left",
      "bottom-right",
    ],
    ...["left", "left-mid", "mid", "mid-mid", "right", "right-mid"],
  ].map((part) => [part, ""]),
);
const GAP = 2;
const NARROWEST = 6;
/** Rows that the library draws at once: its time grows with their square. */
const AT_ONCE = 500;

export function table(titles: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = titles.map(
    (title, column) =>
      Math.max(
        title.length,
        ...rows.map((row) => stripVTControlCharacters(row[column] ?? "").length),
      ) + GAP,
  );
  if (process.stdout.isTTY) shrink(widths, process.stdout.columns || 80);
  const all = [titles.map((title) => paint("bold", title)), ...rows];
  const lines: string[] = [];
  for (let from = 0; from < all.length; from += AT_ONCE) {
    const drawn = new Table({
      colWidths: widths,
      chars: { ...BARE, middle: "" },
      style: { "padding-left": 0, "padding-right": GAP, head: [], border: [], compact: true },
    });
    drawn.push(...all.slice(from, from + AT_ONCE).map((row) => [...row]));
    lines.push(...drawn.toString().split("\n"));
  }
  return lines.map((line) => line.trimEnd()).join("\n");
}

/** Makes the widest column narrower until all fit. */
function shrink(widths: number[], columns: number): void {
  for (let sum = widths.reduce((a, b) => a + b, 0); sum > columns; sum--) {
    const widest = widths.indexOf(Math.max(...widths));
    if ((widths[widest] ?? 0) <= NARROWEST) return;
    widths[widest] = (widths[widest] ?? 0) - 1;
  }
}
