/** The options of the operator's lists. */

import { count, optionsOf } from "../core/options/option-schemas.ts";
import { bySeq, cursorsOf } from "../engine/page.ts";
import type { PageOptions } from "./protocol.ts";

export const LIMIT = count({ max: 100 }).default(50);

/** Of a list whose places are numbers. */
export function seqPage(list: string) {
  const { at, option: cursor } = cursorsOf(list, bySeq);
  return { at, options: optionsOf<PageOptions>()({ limit: LIMIT, cursor }) };
}
