/**
 * `perdure/codemode`: workflows that run code in their agent's Code Mode runtime.
 *
 * @experimental It uses `@cloudflare/codemode` and `createExecuteTool()`, which Think has deprecated.
 */

export type { CodemodeCall } from "../waits/kinds/codemode/types.ts";
export {
  type CodemodeDetails,
  CodemodeError,
  CodemodeInterruptedError,
  CodemodeRejectedError,
  CodemodeTimeoutError,
  CodemodeValidationError,
} from "./errors.ts";
export { codemode } from "./step.ts";
export type { CodemodeOptions, CodemodeResult } from "./step-options.ts";
export { withCodemode } from "./with-codemode.ts";
