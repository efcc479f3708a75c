/** `perdure/inbound`: accepts arrivals once, replays them, and signs links. */

export { InvalidOptionError } from "../../core/options/options.ts";
export { InvalidFilterError } from "../../engine/page.ts";
export { InvalidApprovalError } from "../../workflow/waits/errors.ts";
export {
  InboundBusyError,
  InvalidArrivalError,
  InvalidCallError,
  ReplayError,
} from "./errors.ts";
export { type InstalledInbound, inbound } from "./feature.ts";
export type { Inbound } from "./inbound.ts";
export { type LinkSettings, type Links, signedLinks } from "./links.ts";
export type {
  Acceptance,
  AcceptRequest,
  LinkAnswer,
  LinkCall,
  RawArrival,
  RefusedRequests,
} from "./protocol.ts";
export type {
  InboundFilter,
  InboundSettings,
  InspectedArrival,
  ListInboundOptions,
  LoggedArrival,
  LoggedCall,
  LoggedWait,
  ReplayFilter,
  ReplayPage,
  ReplayResult,
  WaitMatch,
} from "./types.ts";
