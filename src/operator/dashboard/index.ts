/** `perdure/dashboard`: a page for operators. */

export { InvalidOptionError } from "../../core/options/options.ts";
export type { OperatorHandler } from "../api/handler.ts";
export type { Identity, OperatedAgents, OperatorOptions } from "../api/options.ts";
export { dashboard } from "./dashboard.ts";
