/** What other modules of Perdure use besides `index.ts`. Not for users. */

export type { AgentToolEnd, AgentToolProgress, InterruptedReason, Milestone } from "./types.ts";
