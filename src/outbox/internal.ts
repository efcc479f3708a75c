/** For modules of Perdure that install kinds of destinations: what these share with those of the outbox. */

export { POLICY } from "./delivery/policy.ts";
export type {
  AdapterContext,
  AttemptContext,
  DestinationKind,
  WithPolicy,
} from "./destinations/adapter.ts";
export { NAME } from "./destinations/bindings.ts";
export { isPrivateHost } from "./destinations/private-hosts.ts";
export { unlessAborted } from "./destinations/requests.ts";
export { checked, problemOfSecret, readSecret, SECRET_NAME } from "./destinations/secrets.ts";
