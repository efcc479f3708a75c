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
export { type CodemodeOptions, type CodemodeResult, codemode } from "./step.ts";
export { withCodemode } from "./with-codemode.ts";
