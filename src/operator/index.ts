/** `perdure/operator`: the operator API of the agents that an app names, and its client. */

export { InvalidOptionError } from "../core/options/options.ts";
export type { Question } from "../engine/operated/catalog.ts";
export type { AlertOptions } from "./alerts/options.ts";
export { type OperatorHandler, operator } from "./api/handler.ts";
export type { Identity, OperatedAgents, OperatorOptions } from "./api/options.ts";
export type { FindingCode } from "./catalog.ts";
export { OperatorClient, type OperatorClientOptions, OperatorError } from "./client.ts";
export { InvalidOperationError } from "./errors.ts";
export { operations } from "./operations.ts";
export type { TracesOptions } from "./otlp/collector.ts";
export { traces } from "./otlp/traces.ts";
export type * from "./protocol.ts";
