/** The options of the operator's lists. */

import * as z from "zod";
import { count, optionsOf } from "../core/options/option-schemas.ts";
import type { PageOptions } from "./protocol.ts";

const EXPECTED = "expected the cursor of an earlier page";

/** A row's number, as the cursor of a list. */
const SEQ_CURSOR = z
  .custom<string>((value) => typeof value === "string" && /^\d{1,15}$/.test(value), {
    error: EXPECTED,
    abort: true,
  })
  .transform(Number)
  .optional();

export const LIMIT = count({ max: 100 }).default(50);

/** Of a list whose cursor is the number of a row. */
export const SEQ_PAGE = optionsOf<PageOptions>()({ limit: LIMIT, cursor: SEQ_CURSOR });
