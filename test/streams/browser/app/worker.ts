/** An agent with a slow model, and its streams for visitors with the cookie `user=ada`. */

import { SlowModel } from "../../../../examples/react/src/slow-model.ts";
import { DurableAgent } from "../../../../src/hosts/agent/index.ts";
import { followers, streams } from "../../../../src/streams/index.ts";

type Env = Cloudflare.Env & { Desk: DurableObjectNamespace<Desk> };

export class Desk extends DurableAgent<Env> {
  static override readonly features = [followers()];

  override getModel() {
    return new SlowModel();
  }
}

const follow = streams<Env>({
  agents: { desk: (env, name) => env.Desk.getByName(name) },
  authorize: (request, _env, { name }) =>
    request.headers.get("cookie")?.includes(`user=${name}`) ?? false,
});

export default {
  async fetch(request, env) {
    const { pathname } = new URL(request.url);
    if (pathname === "/health") return Response.json({ ok: true });
    const desk = env.Desk.getByName("ada");
    if (request.method === "POST") {
      const { text, thread } = await request.json<{ text: string; thread?: string }>();
      const id = crypto.randomUUID();
      const message = { id, role: "user" as const, parts: [{ type: "text" as const, text }] };
      const { submissionId } = await desk.submitMessages([message], {
        ...(thread !== undefined && { thread }),
      });
      return Response.json({ submissionId });
    }
    return (await follow(request, env)) ?? new Response("Not found", { status: 404 });
  },
} satisfies ExportedHandler<Env>;
