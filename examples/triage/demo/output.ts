/** The output of the demo: progress, and the table of results. */

const INTERVAL_MS = 2_000;
const MIN_COLUMN = 8;

/** Prints lines with the time since the start. */
export class Progress {
  readonly #startedAt = Date.now();
  #shown = { text: "", at: 0 };

  get elapsed(): string {
    return `${((Date.now() - this.#startedAt) / 1000).toFixed(1)} s`;
  }

  note(text: string): void {
    console.log(`${this.elapsed.padStart(8)}  ${text}`);
  }

  /** Prints a line from time to time, when it has changed. */
  update(text: string): void {
    if (text === this.#shown.text || Date.now() < this.#shown.at + INTERVAL_MS) return;
    this.#shown = { text, at: Date.now() };
    this.note(text);
  }
}

/** Columns as wide as their widest cell. If the table is too wide, the widest column shrinks. */
export function table(lines: string[][], width = process.stdout.columns ?? 160): string {
  const widthOf = (_: string, at: number) =>
    Math.max(...lines.map((line) => line[at]?.length ?? 0));
  const widths = lines[0]?.map(widthOf) ?? [];
  const total = () => widths.reduce((sum, columns) => sum + columns + 2, -2);
  while (total() > width && Math.max(...widths) > MIN_COLUMN) {
    const widest = widths.indexOf(Math.max(...widths));
    widths[widest] = (widths[widest] ?? 0) - 1;
  }
  const fit = (cell: string, at: number) => {
    const columns = widths[at] ?? 0;
    return (cell.length > columns ? `${cell.slice(0, columns - 1)}…` : cell).padEnd(columns);
  };
  return lines.map((line) => line.map(fit).join("  ").trimEnd()).join("\n");
}
