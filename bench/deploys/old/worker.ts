/** The code that begins the runs. */

import { versions } from "perdure/deploy";
import { operator } from "perdure/operator";
import { agentOf } from "../agents.ts";
import { type AppEnv, appOf } from "../app.ts";
import { namesOf } from "../desk.ts";
import { flowOf, plainOf } from "../flow.ts";

export { Desk } from "../desk.ts";

export class CellAgent extends agentOf("old") {}
export class Tooled extends agentOf("old", "rename-tool") {}
export class Tasked extends agentOf("old", "rename-task") {}
export class Bound extends agentOf("old") {}
export class Moved extends agentOf("old") {}

export class Flow extends flowOf("old") {}
export class NamedFlow extends flowOf("old") {}
export class Versioned extends versions({ "1": flowOf("old") }) {}
export class Plain extends plainOf("old") {}
export class NamedPlain extends plainOf("old") {}

const operators = operator<AppEnv>({
  agents: {
    CellAgent: { namespace: (env) => env.AGENT, names: namesOf("CellAgent") },
    Tooled: { namespace: (env) => env.TOOLED, names: namesOf("Tooled") },
    Tasked: { namespace: (env) => env.TASKED, names: namesOf("Tasked") },
    Bound: { namespace: (env) => env.BOUND, names: namesOf("Bound") },
    Moved: { namespace: (env) => env.MOVED, names: namesOf("Moved") },
  },
  authorize: () => ({ id: "driver", can: "read" }),
});

export default appOf("old", operators);
