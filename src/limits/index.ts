/** `perdure/limits`: limits and money across agents. */

export {
  LimitReachedError,
  LimitTimeoutError,
  PriceMissingError,
  SubmissionReplacedError,
  SubmissionSkippedError,
} from "./errors.ts";
