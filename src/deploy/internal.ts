/** What other modules of Perdure use besides `index.ts`. Not for users. */

export type { Deployments } from "./deployments.ts";
