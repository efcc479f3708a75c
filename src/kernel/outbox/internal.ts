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
export { isPrivateHost } from "./destinations/private-hosts.ts";
export { excerptOf } from "./destinations/requests.ts";
export { checked, problemOfSecret, readSecret, SECRET_NAME } from "./destinations/secrets.ts";
export { type OtlpDestination, STILL_WAITING } from "./destinations/telemetry.ts";
export { hostOf, problemOfHost, problemOfUrl } from "./destinations/webhook.ts";
export { hasEnded, NO_INSTANCE } from "./destinations/workflow-event.ts";
export { messageMatches, NotNeededError, RefusedError, UndeliverableError } from "./errors.ts";
export { deliveryIdOf } from "./event.ts";
