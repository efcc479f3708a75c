/** A trace as text: each span in a line, with a bar for its time. */

import type { Trace } from "../../operator/protocol.ts";
import { elapsedText, rowsOf } from "../../operator/waterfall.ts";
import { paint, short } from "./text.ts";

const MAX_ROWS = 200;
const NAME = 46;

export function waterfall({ spans }: Trace, now: number, columns: number): string {
  const start = Math.min(...spans.map(({ startedAt }) => startedAt));
  const end = Math.max(start + 1, ...spans.map(({ endedAt }) => endedAt ?? now));
  const width = Math.max(10, Math.min(60, columns - NAME - 14));
  const rows = rowsOf(spans);
  const lines = rows.slice(0, MAX_ROWS).map(({ span, depth }) => {
    const { kind, name, startedAt, endedAt, status, error } = span;
    const last = endedAt ?? now;
    const from = Math.min(width - 1, Math.floor(((startedAt - start) / (end - start)) * width));
    const length = Math.max(1, Math.round(((last - startedAt) / (end - start)) * width));
    const bar =
      `${" ".repeat(from)}${(kind === "wait" ? "·" : endedAt === undefined ? "▒" : "█").repeat(length)}`.slice(
        0,
        width,
      );
    const label = short(`${"  ".repeat(Math.min(depth, 8))}${kind} ${name}`, NAME - 1).padEnd(NAME);
    const line = `${label}${elapsedText(last - startedAt).padStart(11)}  ${bar}`.trimEnd();
    const problem =
      error === undefined
        ? ""
        : `\n${" ".repeat(2 * Math.min(depth + 1, 9))}${short(error, columns - 20)}`;
    return status === "error" ? paint("red", line + problem) : line + problem;
  });
  if (rows.length > MAX_ROWS)
    lines.push(`${rows.length - MAX_ROWS} more spans; all of them with --json`);
  return lines.join("\n");
}
