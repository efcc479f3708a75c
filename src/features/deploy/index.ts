/** `perdure/deploy`: versions of an app, and what a deploy would strand. */

export { InvalidOptionError } from "../../core/options/options.ts";
export { InvalidFilterError } from "../../engine/page.ts";
export { type Deployments, type DeploymentsOptions, deployments } from "./deployments.ts";
export { UnknownVersionError } from "./errors.ts";
export type {
  AskedStep,
  DeployedVersion,
  Need,
  OpenItem,
  PlatformStep,
  Replay,
  ReplayProblem,
  Version,
  WorkflowHistory,
} from "./types.ts";
export { type VersionedWorkflow, versions, type WorkflowClass } from "./versions.ts";
