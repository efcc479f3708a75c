/** The worker of the bench of rows. It imports Perdure by its public entries, so that it measures any implementation of them. */

import { served } from "../worker/served.ts";
import { rowRequests } from "./requests.ts";

export {
  AgentRows,
  BuiltInAgentRows,
  BuiltInThinkRows,
  FullAgentRows,
  ObjectRows,
  ThinkRows,
} from "./objects.ts";
export { AgentPrompt, BuiltInPrompt, ObjectPrompt } from "./workflows.ts";

export default served(rowRequests);
