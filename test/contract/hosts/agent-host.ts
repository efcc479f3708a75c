/** The app of the contract on `perdure/agent`. */

import { DurableAgent } from "../../../src/hosts/agent/index.ts";
import { ScriptedModel } from "../../../src/testing/index.ts";
import { contractTools } from "./app.ts";

export class AgentHost extends DurableAgent<Cloudflare.Env> {
  override getModel(id?: string) {
    return new ScriptedModel(undefined, id);
  }
  override getTools() {
    return contractTools();
  }
}
