/** The files that `perdure init` writes. */

/** @param name of the class */
export function agentFile(name: string): string {
  return `import { operations } from "perdure/operator";
import { ScriptedModel } from "perdure/testing";
import { DurableThink } from "perdure/think";

export class ${name} extends DurableThink {
  // For the page and \`npx perdure\`.
  static override readonly features = [operations()];

  override getModel() {
    // Needs no key. Return your own model here, e.g. \`createOpenAI({ apiKey })("gpt-4o-mini")\`.
    return new ScriptedModel({ text: "Hello from ${name}" });
  }
}
`;
}

/** For a project without a Worker: a route that asks the agent, and the dashboard. */
export function workerFile(name: string, agentModule: string): string {
  return `import { getAgentByName } from "agents";
import { dashboard } from "perdure/dashboard";
import type { ${name} } from "${agentModule}";

export { ${name} } from "${agentModule}";

interface Env extends Cloudflare.Env {
  ${name}: DurableObjectNamespace<${name}>;
  PERDURE_TOKEN?: string; // \`wrangler secret put PERDURE_TOKEN\`
}

// http://localhost:8787/perdure, and npx perdure report
const operators = dashboard<Env>({
  agents: { ${name}: { namespace: (env) => env.${name}, names: ["main"] } },
  authorize(request, env) {
    const { hostname } = new URL(request.url);
    if (["localhost", "127.0.0.1"].includes(hostname)) return { id: "developer", can: "act" };
    const isOperator =
      env.PERDURE_TOKEN !== undefined &&
      request.headers.get("authorization") === \`Bearer \${env.PERDURE_TOKEN}\`;
    return isOperator ? { id: "operator", can: "act" } : null;
  },
});

export default {
  async fetch(request, env) {
    const answered = await operators(request, env);
    if (answered) return answered;
    if (request.method !== "POST" || new URL(request.url).pathname !== "/ask") {
      return new Response("Not found", { status: 404 });
    }
    const agent = await getAgentByName(env.${name}, "main");
    const parts = [{ type: "text" as const, text: await request.text() }];
    const { submissionId } = await agent.submitMessages([{ id: crypto.randomUUID(), role: "user", parts }]);
    const ended = await agent.waitForSubmission(submissionId, { timeoutMs: 30_000 });
    return Response.json({ submissionId, status: ended?.status, output: ended?.output });
  },
} satisfies ExportedHandler<Env>;
`;
}

/** @param date today, e.g. `2026-11-23` */
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
