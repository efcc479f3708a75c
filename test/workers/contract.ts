/** The worker of `npm run test:contract`: one app on every host, and the apps of single tests. */

import { crashable } from "../../src/testing/index.ts";
import { AgentHost as Agent } from "../contract/hosts/agent-host.ts";
import { ChatHost as Chat } from "../contract/hosts/chat-host.ts";
import { ObjectHost as Plain } from "../contract/hosts/object-host.ts";
import { ThinkHost as Think } from "../contract/hosts/think-host.ts";
import { ChatApp as App, PlainChat as WithoutDurable } from "../hosts/chat/chat-app.ts";

export { LimitKeeper } from "../../src/features/limits/index.ts";
export { AttackedObject } from "../contract/hosts/attacked-object.ts";
export { OfferAgent, OfferWorkflow } from "../contract/hosts/offer-agent.ts";
export { OfferObject, OtherObject } from "../contract/hosts/offer-object.ts";
export { OfferChild, OfferThink } from "../contract/hosts/offer-think.ts";
export { StoredObject } from "../contract/hosts/stored-object.ts";
export { SwapHost } from "../contract/hosts/swap-host.ts";
export * from "../contract/hosts/workflow-classes.ts";
export { ContractWorkflow, ObjectVersioned, ObjectWorkflow } from "../contract/hosts/workflows.ts";
export { VariantChat } from "../hosts/chat/chat-app.ts";

export const ChatApp = crashable(App);
export const PlainChat = crashable(WithoutDurable);
export const AgentHost = crashable(Agent);
export const ChatHost = crashable(Chat);
export const ObjectHost = crashable(Plain);
export const ThinkHost = crashable(Think);

export default { fetch: () => new Response("The test worker has no page", { status: 404 }) };
