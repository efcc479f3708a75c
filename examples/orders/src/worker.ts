/**
 * The HTTP routes. Those for orders are for local use: they do not authenticate users.
 *
 *   POST /hooks/stripe       events of Stripe
 *   GET  /hooks/links/...    a page that asks before it changes anything; POST decides
 *   POST /orders             places an order: { id, email, amount }
 *   GET  /orders/<id>        returns its status, and the link that approves it
 *   GET  /health
 */

import { getAgentByName } from "agents";
import { links, stripe, webhooks } from "perdure/webhooks";
import type { Env, Order } from "./shop.ts";

export { OrderWorkflow, Shop } from "./shop.ts";

const shopOf = (env: Env) => getAgentByName(env.Shop, "main");

const hooks = webhooks(
  // Without `handle`: an event starts nothing, workflows wait for it.
  stripe({ secret: "STRIPE_SECRET", agent: (_, env: Env) => shopOf(env) }),
  links({ secret: "LINK_SECRET" }),
);

export default {
  async fetch(request, env, ctx) {
    const answer = await hooks(request, env, ctx);
    if (answer) return answer;
    const [what = "", id] = new URL(request.url).pathname.slice(1).split("/");
    if (what === "health") return Response.json({ ok: true });
    if (what !== "orders") return new Response("Not found", { status: 404 });
    const shop = await shopOf(env);
    if (id === undefined)
      return Response.json({ id: await shop.place(await request.json<Order>()) });
    return Response.json(await shop.inspect(id));
  },
} satisfies ExportedHandler<Env>;
