/** What other modules use of the kernel. */

export { callOf } from "./calls.ts";
export {
  CAPABILITY_VERBS,
  type CapabilityName,
  callAgent,
  NotDurableError,
  type Remote,
  remoteOf,
  type VerbOf,
} from "./capabilities.ts";
export { type Feature, FeatureNotInstalledError } from "./features.ts";
export type { HostAgent } from "./host-agent.ts";
export {
  HOST_OPTIONS,
  type Host,
  type HostOptions,
  type HostTurns,
  type Kernel,
  kernelOf,
  type TurnOptions,
} from "./kernel.ts";
export { MOST_REPLY, ReplyChunks } from "./reply-chunks.ts";
export type { ReplyWatcher, Watcher, Watchers } from "./watchers.ts";
export type { RunWorkflow } from "./workflows.ts";
