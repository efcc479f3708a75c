/** The code that is deployed while the runs are open. */

import { versions } from "perdure/deploy";
import { operator } from "perdure/operator";
import { agentOf } from "../agents.ts";
import { type AppEnv, appOf } from "../app.ts";
import { namesOf } from "../desk.ts";
import { flowOf, plainOf } from "../flow.ts";

export { Desk } from "../desk.ts";

export class CellAgent extends agentOf("new") {}
export class Tooled extends agentOf("new", "rename-tool") {}
export class Tasked extends agentOf("new", "rename-task") {}
export class Bound extends agentOf("new") {}
export class MovedOn extends agentOf("new") {}

export class Flow extends flowOf("new") {}
export class RenamedFlow extends flowOf("new") {}
export class Versioned extends versions({
  "1": flowOf("old"),
  "2": flowOf("new"),
}) {}
export class Plain extends plainOf("new") {}
export class RenamedPlain extends plainOf("new") {}

const operators = operator<AppEnv>({
  agents: {
    CellAgent: { namespace: (env) => env.AGENT, names: namesOf("CellAgent") },
    Tooled: { namespace: (env) => env.TOOLED, names: namesOf("Tooled") },
    Tasked: { namespace: (env) => env.TASKED, names: namesOf("Tasked") },
    Bound: { namespace: (env) => env.BOUND_RENAMED, names: namesOf("Bound") },
    Moved: { namespace: (env) => env.MOVED, names: namesOf("Moved") },
  },
  authorize: () => ({ id: "driver", can: "read" }),
});

export default appOf("new", operators);
