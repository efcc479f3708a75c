/** `perdure/inbound`: accepts deliveries once, replays them, and signs links. */

export { InvalidOptionError } from "../core/options/options.ts";
export { InvalidApprovalError } from "../kernel/waits/index.ts";
export {
  InboundBusyError,
  InvalidCallError,
  InvalidDeliveryError,
  InvalidInboundFilterError,
  ReplayError,
} from "./errors.ts";
export { type InstalledInbound, inbound } from "./feature.ts";
export type { Inbound } from "./inbound.ts";
export { type ApprovalLinkOptions, type LinkSettings, type Links, signedLinks } from "./links.ts";
export type {
  Acceptance,
  AcceptRequest,
  Arrival,
  LinkAnswer,
  LinkCall,
  RefusedRequests,
} from "./protocol.ts";
export type {
  InboundFilter,
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
