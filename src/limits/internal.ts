/** What other modules of Perdure use besides `index.ts`. Not for users. */

export type { InstalledLimits, LimitControls } from "./controls.ts";
