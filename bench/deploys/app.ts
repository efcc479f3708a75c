/** The requests of the driver to either half of the app. */

import { served } from "../worker/served.ts";
import type { agentOf, Look } from "./agents.ts";
import { bindingsOf, type Code, cellOf } from "./cells.ts";
import { type DeskEnv, deskOf } from "./desk.ts";

type Agent = InstanceType<ReturnType<typeof agentOf>>;
export type Status = { readonly status: string; readonly error?: string };
/** What either half binds. */
export type AppEnv = DeskEnv &
  Cloudflare.Env &
  Readonly<
    Record<
      "AGENT" | "TOOLED" | "TASKED" | "BOUND" | "BOUND_RENAMED" | "MOVED",
      DurableObjectNamespace<Agent>
    >
  >;
type Bound = Readonly<Record<string, DurableObjectNamespace<Agent> & Workflow<{ cell: object }>>>;
type Operators = (request: Request, env: AppEnv) => Promise<Response | null>;

const ENDED = ["complete", "errored", "terminated"];

export function appOf(code: Code, operators: Operators) {
  const bindings = (env: AppEnv, id: string) => {
    const { agent, workflow } = bindingsOf(cellOf(id), code);
    const bound = env as unknown as Bound;
    const [namespace, flow] = [bound[agent], bound[workflow]];
    if (!namespace || !flow) throw new Error(`No binding ${agent} or ${workflow}`);
    return { agent: namespace.getByName(id), workflow: flow };
  };
  const isPlain = (id: string) => cellOf(id).flavor === "plain";
  const requests = served<AppEnv>({
    async begin(env, id: string) {
      const { agent, workflow } = bindings(env, id);
      if (isPlain(id)) await workflow.create({ id, params: { cell: cellOf(id) } });
      else await agent.begin();
    },
    desk: (env) => deskOf(env).look(),
    open: (env) => deskOf(env).open(),
    look: (env, id: string): Look | Promise<Look> => bindings(env, id).agent.look(),
    /** A sender, or a person, does what the run waits for. */
    async receive(env, id: string) {
      const { agent, workflow } = bindings(env, id);
      if (!isPlain(id)) return agent.receive();
      const event = { type: "paid", payload: { amount: 5 } };
      return (await workflow.get(id)).sendEvent(event);
    },
    decide: (env, id: string) => bindings(env, id).agent.decide(),
    /** Ends the waits of the driver, and lets the local engine go on, which resumes an instance at an event. */
    async go(env, id: string) {
      const instance = await bindings(env, id).workflow.get(id);
      const { status } = await instance.status();
      if (!ENDED.includes(status)) await instance.sendEvent({ type: "go", payload: {} });
    },
    async status(env, id: string): Promise<Status> {
      try {
        const { status, error } = await (await bindings(env, id).workflow.get(id)).status();
        return { status, ...(error && { error: `${error.name}: ${error.message}` }) };
      } catch (error) {
        return { status: "gone", error: String(error) };
      }
    },
  });
  return {
    fetch: async (request, env, ctx) =>
      (await operators(request, env)) ?? requests.fetch(request, env, ctx),
  } satisfies ExportedHandler<AppEnv>;
}
