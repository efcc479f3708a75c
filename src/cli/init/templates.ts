/** The files and members that `perdure init` writes. */

import { HOSTS, type HostEntry } from "../project/hosts.ts";

const FEATURES = `  // For the page and \`npx perdure\`.
  static override readonly features = [operations()];`;

const modelOf = (name: string) => `new ScriptedModel({ text: "Hello from ${name}" })`;
/** Needs no key, so that a first run has no prerequisites. */
const OWN_MODEL = `// Needs no key. Return your own model here, e.g. \`createOpenAI({ apiKey })("gpt-4o-mini")\`.`;

/** The field that makes a plain object durable, without the indent of its first line. */
export function objectField(name: string): string {
  return `readonly durable = durable(this, {
  ${OWN_MODEL.replace("Return", "Pass")}
  model: ${modelOf(name)},
  // For the page and \`npx perdure\`.
  features: [operations()],
});`;
}

/** @param name of the class */
export function agentFile(name: string, host: HostEntry): string {
  const { by } = HOSTS[host];
  const tools = `import { operations } from "perdure/operator";\nimport { ScriptedModel } from "perdure/testing";\n`;
  if (host === "perdure/object") {
    return `import { Lifecycle } from "agents/lifecycle";
import { DurableObject } from "cloudflare:workers";
import { type DurableVerbs, durable } from "perdure/object";
${tools}
export class ${name} extends DurableObject {
  readonly lifecycle = Lifecycle.install(this);
  ${objectField(name).replaceAll("\n", "\n  ")}
}
export interface ${name} extends DurableVerbs {}
`;
  }
  const isChat = host === "perdure/chat";
  return `${isChat ? `import { convertToModelMessages, streamText } from "ai";\n` : ""}import { ${by} } from "${host}";
${tools}
export class ${name} extends ${by} {
${FEATURES}

  override getModel() {
    ${OWN_MODEL}
    return ${modelOf(name)};
  }
${isChat ? CHAT_MESSAGE : ""}}
`;
}

const CHAT_MESSAGE = `
  override async onChatMessage() {
    const messages = await convertToModelMessages(this.messages);
    return streamText(this.durable({ model: this.getModel(), messages })).toUIMessageStreamResponse();
  }
`;

/** For a project without a Worker: a route that asks the agent, and the dashboard. */
export function workerFile(name: string, host: HostEntry, agentModule: string): string {
  const isObject = host === "perdure/object";
  const isChat = host === "perdure/chat";
  const agents = isChat ? "getAgentByName, routeAgentRequest" : "getAgentByName";
  const found = isObject
    ? `env.${name}.getByName("main")`
    : `await getAgentByName(env.${name}, "main")`;
  const chat = `    const connected = await routeAgentRequest(request, env); // for useAgentChat()
    if (connected) return connected;
`;
  return `${isObject ? "" : `import { ${agents} } from "agents";\n`}import { dashboard } from "perdure/dashboard";
import type { ${name} } from "${agentModule}";

export { ${name} } from "${agentModule}";

interface Env extends Cloudflare.Env {
  ${name}: DurableObjectNamespace<${name}>;
  PERDURE_TOKEN?: string; // \`wrangler secret put PERDURE_TOKEN\`
}

/** Lets in local runs, and who sends the token as \`authorization: Bearer ...\`. */
function authorize(request: Request, env: Env) {
  const { hostname } = new URL(request.url);
  const isLocal = ["localhost", "127.0.0.1"].includes(hostname);
  const isOperator =
    Boolean(env.PERDURE_TOKEN) &&
    request.headers.get("authorization") === \`Bearer \${env.PERDURE_TOKEN}\`;
  if (!isLocal && !isOperator) return null;
  return { id: isOperator ? "operator" : "developer", can: "act" } as const;
}

// http://localhost:8787/perdure, and npx perdure report
const operators = dashboard<Env>({
  agents: { ${name}: { namespace: (env) => env.${name}, names: ["main"] } },
  authorize,
});

export default {
  async fetch(request, env) {
    const answered = await operators(request, env);
    if (answered) return answered;
    if (!authorize(request, env)) return new Response("Unauthorized", { status: 401 });
${isChat ? chat : ""}    if (request.method !== "POST" || new URL(request.url).pathname !== "/ask") {
      return new Response("Not found", { status: 404 });
    }
    const agent = ${found};
    const parts = [{ type: "text" as const, text: await request.text() }];
    const { submissionId } = await agent.submitMessages([{ id: crypto.randomUUID(), role: "user", parts }]);
    const ended = await agent.waitForSubmission(submissionId, { timeoutMs: 30_000 });
    return Response.json({ submissionId, status: ended?.status, output: ended?.output });
  },
} satisfies ExportedHandler<Env>;
`;
}

/** @param date today, e.g. \`2026-11-23\` */
export function configFile(project: string, name: string, date: string): string {
  return `{
  "name": ${JSON.stringify(project)},
  "main": "src/worker.ts",
  "compatibility_date": "${date}",
  "compatibility_flags": ["nodejs_compat"],
  "durable_objects": { "bindings": [{ "name": "${name}", "class_name": "${name}" }] },
  "migrations": [{ "tag": "v1", "new_sqlite_classes": ["${name}"] }]
}
`;
}

export const TSCONFIG = `{
  "extends": "agents/tsconfig",
  "compilerOptions": { "types": ["@cloudflare/workers-types"] },
  "include": ["src"]
}
`;

/** What git ignores in a project. */
export const IGNORED = ["node_modules/", ".wrangler/", ".dev.vars", ".env"];

export const SCRIPTS = { dev: "wrangler dev", types: "tsc --noEmit", deploy: "wrangler deploy" };
