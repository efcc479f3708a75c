/** The agent's part of Code Mode: a class that can run the code of its workflows. */

import type { DurableThink } from "../hosts/think/durable-think.ts";
import { CAPABILITIES } from "../hosts/verbs.ts";
import { Codemode } from "../waits/kinds/codemode.ts";
import { codemodePort } from "./port.ts";
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
