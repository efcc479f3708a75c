/** What the hosts use of the delivery log. */

export type { TransactionalVerb } from "./acceptance.ts";
export {
  InboundBusyError,
  InvalidCallError,
  InvalidDeliveryError,
  InvalidInboundFilterError,
  ReplayError,
} from "./errors.ts";
export { Inbound } from "./inbound.ts";
export type { Acceptance, AcceptRequest, Arrival, RefusedRequests } from "./protocol.ts";
export type {
  InboundFilter,
  InboundPage,
  InboundSettings,
  InspectedDelivery,
  ListInboundOptions,
  LoggedCall,
  LoggedDelivery,
  LoggedWait,
  ReplayFilter,
  ReplayPage,
  ReplayResult,
  WaitMatch,
} from "./types.ts";
