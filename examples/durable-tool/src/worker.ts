/**
 * An agent whose tool has three steps of a second each, with an offline model. The routes are for local use: they do not
 * authenticate users.
 *
 *   POST /orders/<id>    asks the agent to ship an order, once for each id
 *   GET  /orders/<id>    returns the submission, and what the steps did
 *   GET  /health
 */

import { getAgentByName } from "agents";
import { DurableAgent, durableTool } from "perdure/agent";
import { ScriptedModel } from "perdure/testing";
import { z } from "zod";

interface Env extends Cloudflare.Env {
  Shop: DurableObjectNamespace<Shop>;
}

export class Shop extends DurableAgent<Env> {
  override getModel() {
    // It follows a script: it calls the tool, and answers.
    return new ScriptedModel({
      tool: { name: "ship", input: { order: "7" } },
      text: "Your order is on its way.",
    });
  }

  override getTools() {
    const ship = durableTool({
      name: "ship",
      description: "Ships an order.",
      inputSchema: z.object({ order: z.string() }),
      execute: async ({ order }, { step }) => {
        for (const name of ["reserve", "pay", "pack"])
          await step.do(name, ({ idempotencyKey }) => this.act(name, idempotencyKey));
        return `Order ${order} is shipped`;
      },
    });
    return { ship };
  }

  /** Something with an effect outside of the agent, which is repeated under its key only. */
  async act(name: string, key: string) {
    this.sql`CREATE TABLE IF NOT EXISTS acts (name TEXT, key TEXT)`;
    this.sql`INSERT INTO acts VALUES (${name}, ${key})`;
    await new Promise((resolve) => setTimeout(resolve, 1_000));
  }

  acts() {
    this.sql`CREATE TABLE IF NOT EXISTS acts (name TEXT, key TEXT)`;
    return this.sql<{ name: string; key: string }>`SELECT name, key FROM acts`;
  }
}

export default {
  async fetch(request, env) {
    const [what = "", id = ""] = new URL(request.url).pathname.slice(1).split("/");
    if (what === "health") return Response.json({ ok: true });
    if (what !== "orders" || id === "") return new Response("Not found", { status: 404 });
    const shop = await getAgentByName(env.Shop, "main");
    if (request.method === "GET")
      return Response.json({ turn: await shop.inspectSubmission(id), acts: await shop.acts() });
    const message = {
      id: `asked-${id}`,
      role: "user" as const,
      parts: [{ type: "text" as const, text: "Ship my order." }],
    };
    return Response.json(await shop.submitMessages([message], { submissionId: id }));
  },
} satisfies ExportedHandler<Env>;
