/** What other modules of Perdure use besides `index.ts`. Not for users. */

export type { LimitControls } from "./controls.ts";
export type { InstalledLimits } from "./limits.ts";
