/** `perdure/testing`: scripted models, a storage meter, crashes at every write, and a clock that the test controls. */

export type { Instant } from "../core/options/instant.ts";
export type { Duration } from "../core/options/options.ts";
export type { Replay, ReplayProblem, WorkflowHistory } from "../features/deploy/types.ts";
export type { SaidMessage } from "./conversation.ts";
export { type CrashReport, crashAtEveryWrite, type WrongPoint } from "./crash-matrix.ts";
export { crashable } from "./crashable.ts";
export { InvalidScenarioError, InvalidScriptError, VirtualClockError } from "./errors.ts";
export { type InspectWorkOptions, inspectWork } from "./inspection/inspect-work.ts";
export type { WorkInspection } from "./inspection/open-work.ts";
export type { CrashPoint, Moment } from "./instance.ts";
export { type InvariantOptions, invariantsOf } from "./invariants.ts";
export { type Count, Meter, metered, type StorageObserver } from "./meter.ts";
export type { WorkflowClass } from "./replay/entrypoint.ts";
export { InvalidHistoryError } from "./replay/errors.ts";
export { type ReplayOptions, replayWorkflow } from "./replay/replay.ts";
export type { CrashRun, CrashScenario } from "./scenario.ts";
export { type LongText, longText, type Script } from "./script.ts";
export {
  ask,
  isFollowUp,
  modelCalls,
  modelsCalled,
  RecordingModel,
  resetModelCalls,
  ScriptedModel,
} from "./scripted-model.ts";
export { type VirtualClock, type VirtualClockOptions, virtualClock } from "./virtual-clock.ts";
