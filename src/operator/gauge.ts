/** What the page and the command line show of an amount: how much of it is used. */

import type { Gauge } from "../engine/operated/list.ts";

const number = (value: number) => value.toLocaleString("en-US", { maximumFractionDigits: 4 });

/** E.g. `980 of 1,000`, or `480 of 500, declared 1,000` where a provider allows less. */
export function gaugeText({ used, amount, allowed }: Gauge): string {
  const declared = allowed === undefined ? "" : `, declared ${number(amount)}`;
  return `${number(used)} of ${number(allowed ?? amount)}${declared}`;
}
