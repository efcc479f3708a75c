/**
 * The HTTP routes of the soak, for its driver only: they do not authenticate callers.
 *
 *   POST /call/<agent>/<verb>     calls the verb with the body as its argument, and returns its result
 *   GET  /follow/<agent>/...      streams a submission or a thread
 *   POST /workflows/<action>      on the workflows with the ids of the body, without a call of their agents; their status
 *   POST /hooks/standard-webhooks receives webhooks
 *   GET  /health
 */

import { getAgentByName } from "agents";
import { operator } from "perdure/operator";
import { standardWebhooks, webhooks } from "perdure/webhooks";
import { type ArrivalBody, isNested, isObject, type Look } from "../words.ts";
import { hookOf, type SoakAgent, type SoakApp, toSubmission } from "./agents.ts";
import type { Env } from "./tell.ts";

export { Helper, SoakAgent, SoakChat, SoakObject, SoakThink } from "./agents.ts";
export { SoakWorkflow } from "./workflow.ts";

const VERBS: ReadonlySet<string> = new Set([
  ...[
    "submit",
    "submitAll",
    "submitInvalid",
    "cancel",
    "retryEnded",
    "remove",
    "clearMain",
    "clearSide",
  ],
  ...["reset", "begin", "grantAll", "putEvent", "redrive", "pauseTasks", "pauseBeat", "resumeBeat"],
  ...["triggerBeat", "backfillBeat", "skipBeat", "submitMalformed", "look"],
  ...["pauseWorkflow", "resumeWorkflow", "restartWorkflow", "terminateWorkflow"],
]);
const LEVELS = 2;

const hooks = webhooks(
  standardWebhooks({
    secret: "HOOK_SECRET",
    agent: ({ body }: { body: ArrivalBody }, env: Env) => stubOf(env, body.agent),
    handle: ({ id, body }: { id: string; body: ArrivalBody }, agent) => {
      if (body.type === "note") return agent.noteArrival(body.key);
      if (body.type === "step" || body.ask === undefined) return undefined;
      const { messages, options } = toSubmission(body.ask, hookOf(ENV.current as Env));
      return agent.submitMessages(messages, { ...options, metadata: { arrival: id } });
    },
  }),
);
/** Bindings do not change; a handler of a receiver gets none. */
const ENV: { current?: Env } = {};

const HOSTS = {
  think: "SoakThink",
  agent: "SoakAgent",
  chat: "SoakChat",
  object: "SoakObject",
} as const;

const operated = operator<Env>({
  agents: Object.fromEntries(
    Object.values(HOSTS).map((binding) => [
      binding,
      {
        namespace: (env: Env) => env[binding],
        names: (env: Env) => {
          const items = env.AGENTS.split(",").filter((name) => hostOf(name) === binding);
          return { items };
        },
      },
    ]),
  ),
  authorize: () => ({ id: "soak", can: "read" }),
});

/** The end of the name is the host. */
function hostOf(name: string): (typeof HOSTS)[keyof typeof HOSTS] {
  const host = name.slice(name.lastIndexOf("-") + 1);
  return HOSTS[host as keyof typeof HOSTS] ?? HOSTS.agent;
}

async function stubOf(env: Env, name: string): Promise<DurableObjectStub<SoakApp>> {
  const namespace = env[hostOf(name)];
  return isObject(name) ? namespace.getByName(name) : getAgentByName(namespace, name);
}

async function call(env: Env, name: string, verb: string, body: unknown): Promise<unknown> {
  const agent = await stubOf(env, name);
  const verbs = agent as unknown as Record<string, (body: unknown) => Promise<unknown>>;
  const answer = await (isNested(name)
    ? (agent as unknown as DurableObjectStub<SoakAgent>).nested(LEVELS, verb, body)
    : verbs[verb]?.(body));
  if (verb !== "look") return answer;
  const listed = isNested(name) ? [] : await openWork(env, name);
  return { ...(answer as Look), openWork: listed, alarm: await agent.readAlarm() };
}

/** Open work in the list for operators, without armed tasks. */
async function openWork(env: Env, name: string): Promise<string[]> {
  const found: string[] = [];
  for (let cursor: string | undefined; ; ) {
    const url = new URL(`http://soak/perdure/api/agents/${hostOf(name)}/${name}/work`);
    url.searchParams.set("limit", "50");
    if (cursor) url.searchParams.set("cursor", cursor);
    const response = await operated(new Request(url), env);
    if (!response?.ok) throw new Error(`${url}: ${response?.status} ${await response?.text()}`);
    const page: { items: { kind: string; id: string }[]; cursor?: string } = await response.json();
    found.push(
      ...page.items.filter(({ kind }) => kind !== "task").map((one) => `${one.kind} ${one.id}`),
    );
    if (page.cursor === undefined) return found;
    cursor = page.cursor;
  }
}

async function follow(env: Env, url: URL): Promise<Response> {
  const [, , name = "", kind, id = ""] = url.pathname.split("/").map(decodeURIComponent);
  const from = url.searchParams.get("from");
  const options = from === null ? {} : { from };
  const agent = await stubOf(env, name);
  const stream = await (kind === "thread"
    ? agent.followThread(id, options)
    : agent.followSubmission(id, options));
  if (stream === null) return new Response("There is no such submission", { status: 404 });
  const headers = { "content-type": "application/x-ndjson", "cache-control": "no-transform" };
  return new Response(stream, { headers });
}

export default {
  async fetch(request, env, ctx) {
    ENV.current = env;
    const url = new URL(request.url);
    const [route, name = "", verb = ""] = url.pathname.slice(1).split("/");
    if (route === "health") return Response.json({ ok: true });
    if (route === "follow") return follow(env, url);
    if (route === "workflows") {
      return Response.json(await onWorkflows(env, name, await request.json()));
    }
    if (route === "call" && VERBS.has(verb)) {
      return Response.json((await call(env, name, verb, await request.json())) ?? null);
    }
    return (await hooks(request, env, ctx)) ?? new Response("Not found", { status: 404 });
  },
} satisfies ExportedHandler<Env>;

const ENDED = ["complete", "errored", "terminated"];

/**
 * Cloudflare resumes workflows after a machine failure. The local engine resumes a workflow only when it receives an event:
 * `wake` sends one that no workflow waits for.
 */
async function onWorkflows(env: Env, action: string, ids: readonly string[]) {
  const found = ids.map(async (id) => {
    try {
      const instance = await env.SOAK.get(id);
      const { status, error } = await instance.status();
      const isOver = ENDED.includes(status);
      if (action === "wake" && !isOver) await instance.sendEvent({ type: "wake", payload: {} });
      if (action === "terminate" && !isOver) await instance.terminate();
      if (action === "restart" && !isOver) await instance.restart();
      if (action === "resume" && /^(paused|waitingForPause)$/.test(status)) await instance.resume();
      return [id, error ? `${status}: ${error.name}: ${error.message}` : status] as const;
    } catch (error) {
      return [id, String(error)] as const;
    }
  });
  return Object.fromEntries(await Promise.all(found));
}
