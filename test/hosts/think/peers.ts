/** One test for an agent of Think and for one of Perdure, and what their hooks and events tell it. */

import { env } from "cloudflare:workers";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { Think } from "@cloudflare/think";
import type { Agent } from "../../support/think.ts";
import { made, thinkOptions } from "../../support/think-agent.ts";

export const PEERS = ["Think", "DurableThink"] as const;
export type Peer = (typeof PEERS)[number];

/** The members of an agent that a test sets; some of them are protected. */
type Hooks = { [Name in keyof Think]?: unknown } & { onSubmissionStatus?: unknown };

/** A fresh agent of that class, to which something is done when it has been made. */
export function givenPeer(
  peer: Peer,
  build: (agent: Think & { activeTurn: Think["activeTurn"] }) => Hooks,
): Agent {
  const name = `${peer}-${crypto.randomUUID()}`;
  thinkOptions.set(name, { retry: { baseDelay: 1 } });
  made.set(name, (agent) => void Object.assign(agent, build(agent as unknown as Think)));
  const bound = peer === "Think" ? env.BuiltInAgent : env.ThinkAgent;
  return bound.getByName(name) as unknown as Agent;
}

/** What a hook received: the request id of its argument, and the turn that the agent says it runs. */
export type HookCall = { hook: string; requestId: unknown; active: unknown; trigger: unknown };

/** Hooks that write down which turn they are called for. */
export function recordingHooks(agent: Think, calls: HookCall[], trigger?: unknown): Hooks {
  const tell = (hook: string) => (first: unknown, second?: unknown) => {
    const ctx = (hook.endsWith("Error") ? second : first) as Record<string, unknown> | undefined;
    const active = agent.activeTurn;
    const requestId = ctx && "requestId" in ctx ? ctx.requestId : undefined;
    if (trigger !== undefined && ctx?.trigger !== undefined && ctx.trigger !== trigger) {
      throw new Error(`${hook} has the trigger ${ctx.trigger}`);
    }
    calls.push({ hook, requestId, active: active?.requestId, trigger: active?.trigger });
  };
  const names = ["beforeTurn", "authorizeTurn", "beforeStep", "beforeToolCall", "afterToolCall"];
  const others = ["onStepFinish", "onChunk", "onChatResponse", "onChatError", "classifyChatError"];
  const hooks = Object.fromEntries([...names, ...others].map((name) => [name, tell(name)]));
  return {
    ...hooks,
    authorizeTurn: (ctx: unknown) => {
      tell("authorizeTurn")(ctx);
      return true;
    },
    onChatError: (error: unknown, ctx: unknown) => {
      tell("onChatError")(error, ctx);
      return error;
    },
  };
}

export type Event = { type: string; name?: string; payload: Record<string, unknown> };

/** The events of agents and of Think with that name, from now on. */
export function eventsOf(name: string | undefined): { seen: Event[] } & Disposable {
  const seen: Event[] = [];
  const note = (event: unknown) => {
    if ((event as Event).name === name) seen.push(event as Event);
  };
  const channels = ["agents:message", "agents:chat"];
  for (const channel of channels) subscribe(channel, note);
  return {
    seen,
    [Symbol.dispose]: () => {
      for (const channel of channels) unsubscribe(channel, note);
    },
  };
}

/** A client that is connected to an agent, and the frames that it has got of chat streams. */
export async function chatClient(agent: Agent) {
  const url = `http://agent/agents/agent/${agent.name}`;
  const response = await agent.fetch(url, { headers: { Upgrade: "websocket" } });
  const socket = response.webSocket;
  if (!socket) throw new Error(`No web socket: ${response.status}`);
  const frames: { id: string }[] = [];
  socket.accept();
  socket.addEventListener("message", ({ data }) => {
    const frame = JSON.parse(String(data)) as { id: string; type: string };
    if (frame.type === "cf_agent_use_chat_response") frames.push(frame);
  });
  return { frames, close: () => socket.close() };
}
