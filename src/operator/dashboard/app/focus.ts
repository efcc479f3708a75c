/** Where the keyboard is: rows, and the details of the opened one. */

import { go } from "./state.ts";

/** The buttons that open the rows. */
const openers = () => [...document.querySelectorAll<HTMLElement>(".rows td > [aria-expanded]")];

/** Moves the focus to the next row, or to the one before. */
export function move(by: number): void {
  const all = openers();
  const focused = all.indexOf(document.activeElement as HTMLElement);
  const from = focused >= 0 ? focused : all.findIndex((each) => each.ariaExpanded === "true");
  const next = from < 0 ? 0 : Math.max(0, Math.min(all.length - 1, from + by));
  all[next]?.focus();
}

/** Closes the details, and returns to the row. */
export function closeDetails(): void {
  const opener = openers().find((each) => each.ariaExpanded === "true");
  go({ id: "" });
  // A narrow page shows the list only now.
  setTimeout(() => (opener ?? document.getElementById("main"))?.focus());
}
