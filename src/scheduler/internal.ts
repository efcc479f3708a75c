/** What other modules import besides `index.ts`. */

export { openRuns, openTasks } from "./open-work.ts";
