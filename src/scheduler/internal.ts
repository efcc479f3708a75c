/** What other modules of Perdure use besides `index.ts`. Not for users. */

export type { SchedulerFacts, TaskFacts } from "./facts.ts";
