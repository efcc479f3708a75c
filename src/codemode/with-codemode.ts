/** The agent's part of Code Mode: a class that can run the code of its workflows. */

import type { DurableThink } from "../hosts/think/durable-think.ts";
import { CAPABILITIES } from "../hosts/verbs.ts";
import type { CodemodePort } from "../waits/kinds/codemode/types.ts";
import { Codemode } from "../waits/kinds/codemode.ts";
import { type CodemodeRollback, rollBack } from "./rollback.ts";

/** A class that extends DurableThink, abstract or not. */
type AgentClass = abstract new (...args: never[]) => DurableThink;

/**
 * Lets the workflows of an agent use `codemode()`. The agent needs a Code Mode runtime, e.g. by `createExecuteTool(this)` in
 * `getTools()`.
 *
 * @experimental It uses `@cloudflare/codemode` and `createExecuteTool()`, which Think has deprecated.
 * @param Base DurableThink, or your class that extends it
 * @returns a class with the same type as `Base`
 * @example
 * export class Desk extends withCodemode(DurableThink)<Env> {}
 */
export function withCodemode<Base extends AgentClass>(Base: Base): Base {
  class WithCodemode extends (Base as unknown as new (...args: never[]) => DurableThink) {
    constructor(...args: never[]) {
      super(...args);
      const { waits } = this[CAPABILITIES];
      waits.install("codemode", new Codemode(waits, codemodePort(this)));
    }

    /** For `codemode()` with `rollback`: reverts what an execution has applied. Can be called again after a failure. */
    rollbackCodemode(waitId: string): Promise<CodemodeRollback> {
      return rollBack(this[CAPABILITIES].waits, codemodePort(this), waitId);
    }
  }
  return WithCodemode as unknown as Base;
}

const REMEDY =
  "Make one in getTools(), e.g. `execute: createExecuteTool(this)` of @cloudflare/think/tools/execute, with " +
  '`"worker_loaders": [{ "binding": "LOADER" }]` in wrangler.jsonc and `export { CodemodeRuntime } from "@cloudflare/codemode"` ' +
  "in the Worker; or assign `this.codemode = createCodemodeRuntime(...)` in onStart().";

/** The agent's Code Mode runtime, which is made when no turn has made it yet. */
function codemodePort(agent: DurableThink): CodemodePort {
  return {
    runtime: async () => {
      // Think makes the tools at the beginning of each turn: after a restart there may have been none.
      if (!agent.codemode) await agent.getTools();
      if (!agent.codemode) throw new Error(`The agent has no Code Mode runtime. ${REMEDY}`);
      return agent.codemode;
    },
    // Protected in its type, as a Durable Object's context is for its own class.
    sync: () => (agent as unknown as { ctx: DurableObjectState }).ctx.storage.sync(),
  };
}
