/** The worker of the contract: the same app on every host. */

import { crashable } from "../../src/testing/index.ts";
import { AgentHost as Agent } from "../contract/hosts/agent-host.ts";
import { ObjectHost as Plain } from "../contract/hosts/object-host.ts";

export { ContractWorkflow, ObjectWorkflow } from "../contract/hosts/workflows.ts";

export const ObjectHost = crashable(Plain);
export const AgentHost = crashable(Agent);

export default { fetch: () => new Response("The test worker has no page", { status: 404 }) };
