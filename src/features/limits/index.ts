/** `perdure/limits`: limits and money across agents. */

export { InvalidOptionError } from "../../core/options/options.ts";
export { InvalidFilterError } from "../../engine/page.ts";
export type { LimitControls, LimitState, LimitUse, ListLimitsOptions } from "./controls.ts";
export {
  type Limit,
  type LimitOptions,
  type LimitSubject,
  type LimitsOptions,
  limit,
} from "./declared/declarations.ts";
export type { Price, PriceTable } from "./declared/prices.ts";
export type { RateText } from "./declared/rates.ts";
export {
  InvalidLimitKeyError,
  LimitReachedError,
  LimitTimeoutError,
  PriceMissingError,
  SubmissionReplacedError,
  SubmissionSkippedError,
} from "./errors.ts";
export { LimitKeeper } from "./keeper/keeper.ts";
export { KeeperUnreachableError } from "./keepers.ts";
export { limits } from "./limits.ts";
export type { LimitEvent } from "./notices.ts";
