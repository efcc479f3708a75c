/** The feature of `runCode()`: what an agent needs to run the code of its workflows. */

import type { Feature } from "../../workflow/agent/kernel.ts";
import { Codemode } from "./kind.ts";
import { rollBack } from "./rollback.ts";
import type { CodemodePort, CodemodeRuntime } from "./types.ts";

/**
 * Lets the workflows of an agent run code with `runCode()`. The agent needs a Code Mode runtime, e.g. by
 * `createExecuteTool(this)` in `getTools()`.
 *
 * @experimental It uses `@cloudflare/codemode` and `createExecuteTool()`, which Think has deprecated.
 * @example
 * export class Desk extends DurableThink<Env> {
 *   static override readonly features = [codemode()];
 * }
 */
export function codemode(): Feature<"codemode"> {
  return {
    feature: "codemode",
    install: ({ object, storage, waits, calls }) => {
      const port: CodemodePort = {
        runtime: () => runtimeOf(object),
        sync: () => storage.sync(),
      };
      waits.install("codemode", new Codemode(waits, port));
      calls.set("rollbackCodemode", (waitId: string) => rollBack(waits, port, waitId));
    },
  };
}

/** The object's Code Mode runtime, which is made when no turn has made it yet. */
async function runtimeOf(object: {
  codemode?: CodemodeRuntime;
  getTools?(): unknown;
}): Promise<CodemodeRuntime> {
  // Think makes the tools at the beginning of each turn: after a restart there may have been none.
  if (!object.codemode) await object.getTools?.();
  if (object.codemode) return object.codemode;
  throw new Error(
    "The agent has no Code Mode runtime. Make one in getTools(), e.g. `execute: createExecuteTool(this)` of " +
      '@cloudflare/think/tools/execute, with `"worker_loaders": [{ "binding": "LOADER" }]` in wrangler.jsonc and ' +
      '`export { CodemodeRuntime } from "@cloudflare/codemode"` in the Worker; or assign ' +
      "`this.codemode = createCodemodeRuntime(...)` in onStart().",
  );
}
