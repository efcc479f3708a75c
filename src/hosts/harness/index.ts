/** `perdure/harness`: the host for an `Agent` whose turns a harness of the SDK runs. Experimental. */

export * from "../public.ts";
export { DurableHarness, type DurableHarnessOptions } from "./durable-harness.ts";
export { HarnessOperationError, ResetTimeoutError } from "./errors.ts";
