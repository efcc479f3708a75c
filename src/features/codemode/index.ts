/**
 * `perdure/codemode`: workflows that run code in their agent's Code Mode runtime.
 *
 * @experimental It uses `@cloudflare/codemode` and `createExecuteTool()`, which Think has deprecated.
 */

export { codemode } from "./codemode.ts";
export {
  type CodemodeDetails,
  CodemodeError,
  CodemodeInterruptedError,
  CodemodeRejectedError,
  CodemodeTimeoutError,
  CodemodeValidationError,
} from "./errors.ts";
export { type CodemodeOptions, type CodemodeResult, runCode } from "./step.ts";
export type { CodemodeCall } from "./types.ts";
