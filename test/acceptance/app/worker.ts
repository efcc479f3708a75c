/** The worker of the acceptance tests: the same app on every host. */

import { crashable } from "perdure/testing";
import { AcceptanceAgent as Agent } from "./agent.ts";
import { AcceptanceChat as Chat } from "./chat.ts";
import { AcceptanceObject as Plain } from "./object.ts";
import { AcceptanceThink as Think } from "./think.ts";

export { LimitKeeper } from "perdure/limits";
export { AcceptanceObjectWorkflow, AcceptanceWorkflow, SdkWorkflow } from "./workflows.ts";

export const AcceptanceAgent = crashable(Agent);
export const AcceptanceChat = crashable(Chat);
export const AcceptanceObject = crashable(Plain);
export const AcceptanceThink = crashable(Think);

export default { fetch: () => new Response("The test worker has no page", { status: 404 }) };
