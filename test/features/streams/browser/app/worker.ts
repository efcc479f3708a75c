/** An agent with a slow model, and its streams for visitors with the cookie `user=ada`. */

import { SlowModel } from "../../../../../examples/react/src/slow-model.ts";
import { followers, streams } from "../../../../../src/features/streams/index.ts";
import { DurableAgent } from "../../../../../src/hosts/agent/index.ts";

type Env = Cloudflare.Env & { Desk: DurableObjectNamespace<Desk> };

type Options = Parameters<SlowModel["doStream"]>[0];
type Part =
  Awaited<ReturnType<SlowModel["doStream"]>>["stream"] extends ReadableStream<infer P> ? P : never;

/** Does not end its answer to a message with `held-<id>` before the test releases that. */
class HeldModel extends SlowModel {
  constructor(private readonly isReleased: (hold: string) => boolean) {
    super();
  }

  override async doStream(options: Options) {
    const asked = JSON.stringify(options.prompt.findLast(({ role }) => role === "user"));
    const [hold] = /held-[\w-]+/.exec(asked) ?? [];
    const { stream } = await super.doStream(options);
    const transform = async (part: Part, controller: TransformStreamDefaultController<Part>) => {
      while (part.type === "text-end" && hold !== undefined && !this.isReleased(hold)) {
        options.abortSignal?.throwIfAborted();
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      controller.enqueue(part);
    };
    return { stream: stream.pipeThrough(new TransformStream<Part, Part>({ transform })) };
  }
}

export class Desk extends DurableAgent<Env> {
  static override readonly features = [followers()];
  readonly #released = new Set<string>();

  override getModel() {
    return new HeldModel((hold) => this.#released.has(hold));
  }

  async release(hold: string): Promise<void> {
    this.#released.add(hold);
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
    if (pathname === "/release") {
      await desk.release(await request.text());
      return Response.json({ ok: true });
    }
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
