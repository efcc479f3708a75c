/** Where the Code Mode runtime of a Think agent is, and how it is made when no turn has made it yet. */

import type { DurableThink } from "../hosts/think/durable-think.ts";
import type { CodemodePort } from "../waits/kinds/codemode/types.ts";

const REMEDY =
  "Make one in getTools(), e.g. `execute: createExecuteTool(this)` of @cloudflare/think/tools/execute, with " +
  '`"worker_loaders": [{ "binding": "LOADER" }]` in wrangler.jsonc and `export { CodemodeRuntime } from "@cloudflare/codemode"` ' +
  "in the Worker; or assign `this.codemode = createCodemodeRuntime(...)` in onStart().";

export function codemodePort(agent: DurableThink): CodemodePort {
  return {
    runtime: async () => {
      // Think makes the tools at the beginning of each turn: after a restart there may have been none.
      if (!agent.codemode) await agent.getTools();
      if (!agent.codemode) throw new Error(`The agent has no Code Mode runtime. ${REMEDY}`);
      return agent.codemode;
    },
    sync: () => contextOf(agent).storage.sync(),
  };
}

/** Protected in its type, as a Durable Object's context is for its own class. */
function contextOf(agent: DurableThink): DurableObjectState {
  return (agent as unknown as { ctx: DurableObjectState }).ctx;
}
