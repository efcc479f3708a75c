/** Every host of Perdure, with the app on it. */

import { env } from "cloudflare:workers";
import { getSubAgentByName } from "agents";
import type { UIMessage } from "ai";
import type { DurableVerbs } from "perdure/object";
import type { DeliveryPolicy } from "perdure/outbox";
import { AcceptanceAgent } from "./agent.ts";
import { AcceptanceChat } from "./chat.ts";
import type { ReceiverName } from "./events.ts";
import { AcceptanceThink } from "./think.ts";

/** Verbs of every host, and the methods of the app. For those of a capability, call `capabilitiesOf()`. */
export type Verbs = DurableVerbs & {
  /** Sends an event to a method of the object, `receive()` by default. Returns its id. */
  put(key: string, policy?: DeliveryPolicy, receiver?: ReceiverName): Promise<string>;
  putThenThrow(key: string): Promise<void>;
  note(key: string): Promise<string>;
  /** Keeps a text in a session of the app. Returns all texts of that session. */
  remember(text: string): Promise<string[]>;
  /** Submits a turn, and runs another one itself; only on the hosts of a chat of the SDK. */
  submitAndSave?(submitted: UIMessage, direct: UIMessage): Promise<void>;
  /** Stops the object. What it has committed stays. */
  crash(): Promise<void>;
};

/** Abilities that some hosts do not have, as docs/hosts.md lists them. */
export type Ability = "agent tools" | "channel";

export type Host = {
  /** For names of tests, and a column of coverage.md. */
  readonly title: string;
  readonly entry: `perdure/${"agent" | "chat" | "object" | "think"}`;
  /** Agents above the one that is tested: 1 for a sub-agent, 2 for its sub-agent. */
  readonly depth: number;
  readonly lacks: readonly Ability[];
  /** The class of the object, or of the root agent of a sub-agent. */
  readonly objects: DurableObjectNamespace;
  /** Returns a new stub of the agent in the object with that name. */
  connect(name: string): Promise<Verbs>;
  /** Binding of the workflow that the agent starts. */
  readonly workflow: string;
  readonly workflows: Workflow;
};

const LEVELS = ["", "sub-agent of ", "sub-agent of a sub-agent of "];

/** Name of the object with the agent of that name. A root has another name than its sub-agent, and so no tasks of its own. */
export function nameRoot(name: string, depth: number): string {
  return depth === 0 ? name : `root-${name}`;
}

/** Describes an agent in an object of its own, or `depth` agents below it. */
function describeAgent(
  host: Pick<Host, "entry" | "lacks" | "objects"> & {
    readonly class: typeof AcceptanceThink | typeof AcceptanceAgent | typeof AcceptanceChat;
    readonly className: string;
  },
  depth: number,
): Host {
  return {
    ...host,
    title: `${LEVELS[depth]}${host.className}`,
    depth,
    async connect(name) {
      let agent: unknown = host.objects.getByName(nameRoot(name, depth));
      for (let level = 1; level <= depth; level++)
        agent = await getSubAgentByName(
          agent as never,
          host.class as never,
          level === depth ? name : nameRoot(name, depth),
        );
      return agent as Verbs;
    },
    workflow: "ACCEPTANCE_WORKFLOW",
    workflows: env.ACCEPTANCE_WORKFLOW,
  };
}

/** The type of a namespace has the class, which differs between hosts. */
const toNamespace = (namespace: unknown) => namespace as DurableObjectNamespace;

const AGENTS = [
  {
    class: AcceptanceThink,
    className: "DurableThink",
    entry: "perdure/think",
    lacks: [],
    objects: toNamespace(env.AcceptanceThink),
  },
  {
    class: AcceptanceAgent,
    className: "DurableAgent",
    entry: "perdure/agent",
    lacks: ["channel"],
    objects: toNamespace(env.AcceptanceAgent),
  },
  {
    class: AcceptanceChat,
    className: "DurableChatAgent",
    entry: "perdure/chat",
    lacks: ["channel"],
    objects: toNamespace(env.AcceptanceChat),
  },
] as const;

const OBJECT: Host = {
  title: "durable()",
  entry: "perdure/object",
  depth: 0,
  lacks: ["channel", "agent tools"],
  objects: toNamespace(env.AcceptanceObject),
  connect: async (name) => env.AcceptanceObject.getByName(name) as unknown as Verbs,
  workflow: "ACCEPTANCE_OBJECT_WORKFLOW",
  workflows: env.ACCEPTANCE_OBJECT_WORKFLOW,
};

/** The hosts on which every guarantee is tested: `for (const host of HOSTS)`. */
export const HOSTS: readonly Host[] = [
  ...AGENTS.map((agent) => describeAgent(agent, 0)),
  OBJECT,
  ...AGENTS.map((agent) => describeAgent(agent, 1)),
];

/** Sub-agents of sub-agents. */
const NESTED_HOSTS: readonly Host[] = AGENTS.map((agent) => describeAgent(agent, 2));

export function findHost(title: string): Host {
  const host = [...HOSTS, ...NESTED_HOSTS].find((host) => host.title === title);
  if (!host) throw new Error(`No host ${JSON.stringify(title)}`);
  return host;
}

export function supports(host: Host, ability: Ability): boolean {
  return !host.lacks.includes(ability);
}
