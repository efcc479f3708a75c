/** Answers requests by their names, with arguments and an answer in JSON; `/health` answers when the worker is ready. */

type Handlers<Env> = Readonly<Record<string, (env: Env, args: never) => unknown>>;

export function served<Env>(
  handlers: Handlers<Env>,
): Required<Pick<ExportedHandler<Env>, "fetch">> {
  return {
    async fetch(request, env) {
      const name = new URL(request.url).pathname.slice(1);
      if (name === "health") return Response.json({ ok: true });
      const handle = handlers[name];
      if (!handle) return new Response(`There is no request ${name}`, { status: 404 });
      try {
        return Response.json((await handle(env, (await request.json()) as never)) ?? null);
      } catch (error) {
        return new Response(error instanceof Error ? error.stack : String(error), { status: 500 });
      }
    },
  };
}
