/**
 * Agents of two tenants share one account of a provider, with an offline model. The routes are for local use: they do not
 * authenticate users.
 *
 *   POST /turns      { tenant, desk, count }: submits turns to an agent of the tenant
 *   GET  /turns/<desk>   returns the submissions of an agent
 *   GET  /account    returns what the provider has counted
 *   GET  /health
 */

import { DurableObject } from "cloudflare:workers";
import { getAgentByName } from "agents";
import { APICallError } from "ai";
import { DurableAgent } from "perdure/agent";
import { limit, limits } from "perdure/limits";
import { ScriptedModel } from "perdure/testing";

export { LimitKeeper } from "perdure/limits";

interface Env extends Cloudflare.Env {
  Desk: DurableObjectNamespace<Desk>;
  Provider: DurableObjectNamespace<Provider>;
}

const CALLS_A_SECOND = 5;

/** The provider's side of the account: it counts calls, and refuses those above its limit. */
export class Provider extends DurableObject {
  readonly #sql = this.ctx.storage.sql;

  call(): boolean {
    this.#create();
    const now = Date.now();
    const query = "SELECT count(*) AS recent FROM calls WHERE at > ? AND NOT is_refused";
    const { recent } = this.#sql.exec<{ recent: number }>(query, now - 1_000).one();
    const isRefused = recent >= CALLS_A_SECOND;
    this.#sql.exec("INSERT INTO calls VALUES (?, ?)", now, isRefused ? 1 : 0);
    return !isRefused;
  }

  counted() {
    this.#create();
    const query = "SELECT count(*) AS calls, total(is_refused) AS refused FROM calls";
    return this.#sql.exec<{ calls: number; refused: number }>(query).one();
  }

  #create() {
    this.#sql.exec("CREATE TABLE IF NOT EXISTS calls (at INTEGER, is_refused INTEGER)");
  }
}

/** A model of the account. */
class AccountModel extends ScriptedModel {
  constructor(private readonly account: DurableObjectStub<Provider>) {
    super();
  }

  override async doStream(options: Parameters<ScriptedModel["doStream"]>[0]) {
    if (await this.account.call()) return super.doStream(options);
    throw new APICallError({
      message: "Too many requests",
      url: "https://provider.example.com",
      requestBodyValues: {},
      statusCode: 429,
      responseHeaders: { "retry-after": "1" },
    });
  }
}

export class Desk extends DurableAgent<Env> {
  static override readonly features = [
    limits({
      limits: [
        limit("account", { models: "perdure/*", requests: `${CALLS_A_SECOND} per second` }),
        limit("tenant", {
          key: ({ metadata }) => metadata.tenant,
          usd: "10 per day",
          share: "fair",
        }),
      ],
      // A call of the offline model has 10 tokens of input and 5 of output.
      prices: { "perdure/scripted": { input: 1, output: 2 } },
    }),
  ];

  override getModel() {
    return new AccountModel(this.env.Provider.getByName("account"));
  }

  ask(tenant: string, count: number) {
    const items = Array.from({ length: count }, (_, index) => ({
      messages: [
        {
          id: crypto.randomUUID(),
          role: "user" as const,
          parts: [{ type: "text" as const, text: `Question ${index} of ${tenant}` }],
        },
      ],
      options: { thread: "isolated", metadata: { tenant } },
    }));
    return this.submitMany(items);
  }

  async turns() {
    const items = await this.listSubmissions({ limit: 100 });
    return items.map(({ status, completedAt, usage, waitingFor, error }) => ({
      ...{ status, completedAt, cost: usage?.cost, waitingFor, error },
    }));
  }
}

export default {
  async fetch(request, env) {
    const [what = "", name = ""] = new URL(request.url).pathname.slice(1).split("/");
    if (what === "health") return Response.json({ ok: true });
    if (what === "account") {
      return Response.json(await env.Provider.getByName("account").counted());
    }
    if (what !== "turns") return new Response("Not found", { status: 404 });
    if (request.method === "GET") {
      const desk = await getAgentByName(env.Desk, name);
      return Response.json(await desk.turns());
    }
    type Body = { tenant: string; desk: string; count: number };
    const { tenant, desk, count } = (await request.json()) as Body;
    const agent = await getAgentByName(env.Desk, desk);
    await agent.ask(tenant, count);
    return Response.json({ accepted: count });
  },
} satisfies ExportedHandler<Env>;
