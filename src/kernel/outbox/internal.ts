/** For modules of Perdure that install kinds of destinations: what these share with those of the outbox. */

export { POLICY } from "./delivery/policy.ts";
export type {
  Adapter,
  AdapterContext,
  AttemptContext,
  Delivery,
  WithPolicy,
} from "./destinations/adapter.ts";
export {
  bindingOf,
  bindingsOf,
  isAlike,
  NAME,
  NAMESPACE,
  problemOfBinding,
  remedyOf,
  WORKFLOW,
} from "./destinations/bindings.ts";
export { FEATURES as FEATURES_OF_KINDS } from "./destinations/index.ts";
export {
  checked,
  excerptOf,
  isPrivateHost,
  problemOfSecret,
  readSecret,
  SECRET_NAME,
} from "./destinations/requests.ts";
export { hostOf, problemOfHost, problemOfUrl } from "./destinations/webhook.ts";
export { hasEnded, NO_INSTANCE } from "./destinations/workflow-event.ts";
export {
  messageMatches,
  NotNeededError,
  RefusedError,
  STILL_WAITING,
  UndeliverableError,
} from "./errors.ts";
export { ALERT_PREFIX, deliveryIdOf } from "./event.ts";
export { type OpenTarget, openDeliveries, TARGET } from "./store/open-work.ts";
