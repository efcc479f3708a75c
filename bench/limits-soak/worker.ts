/** The worker of the soak of limits: agents that share one account at a provider, and the keeper of its limit. */

import { DurableObject } from "cloudflare:workers";
import { createOpenAI } from "@ai-sdk/openai";
import { Lifecycle } from "agents/lifecycle";
import { tool } from "ai";
import { limit, limits } from "perdure/limits";
import { durable } from "perdure/object";
import { z } from "zod";
import { served } from "../worker/served.ts";
import type { Look, Turn } from "./words.ts";

export { LimitKeeper } from "perdure/limits";

interface Env extends Cloudflare.Env {
  readonly LIMITED: DurableObjectNamespace<LimitedObject>;
  /** The URL of the provider. */
  readonly PROVIDER: string;
  /** What the provider allows, in the order of `Allowed`, with commas between. */
  readonly ALLOWED: string;
}

/** More than there are kills: a turn that ends with an error is a finding. */
const ATTEMPTS = 50;

export class LimitedObject extends DurableObject<Env> {
  readonly lifecycle = Lifecycle.install(this);
  readonly durable = this.#durable();

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    ctx.storage.sql.exec(
      "CREATE TABLE IF NOT EXISTS effects (turn TEXT PRIMARY KEY, times INTEGER NOT NULL) WITHOUT ROWID",
    );
  }

  #durable() {
    const [requests = 0, tokens = 0] = this.env.ALLOWED.split(",").map(Number);
    const openai = limit("openai", {
      models: "openai/*",
      requests: `${requests} per minute`,
      tokens: `${tokens} per minute`,
      concurrency: 40,
    });
    return durable(this, {
      model: createOpenAI({ apiKey: "none", baseURL: this.env.PROVIDER }).chat("scripted"),
      retry: { maxAttempts: ATTEMPTS },
      maxSteps: 3,
      features: [limits({ limits: [openai], maxOutputTokens: 100 })],
      tools: {
        note: tool({
          description: "Notes the turn.",
          inputSchema: z.object({ turn: z.string() }),
          execute: ({ turn }) => {
            const { sql } = this.ctx.storage;
            const query =
              "INSERT INTO effects VALUES (?, 1) ON CONFLICT DO UPDATE SET times = times + 1";
            sql.exec(query, turn);
            return { noted: turn };
          },
        }),
      },
    });
  }

  /** Accepts turns, each once. Every other one is in the main conversation. */
  async submit(ids: readonly string[]): Promise<void> {
    await this.lifecycle.start();
    await this.durable.submitMany(
      ids.map((id, index) => ({
        messages: [{ id, role: "user" as const, parts: [{ type: "text" as const, text: id }] }],
        options: { idempotencyKey: id, submissionId: id, ...(index % 2 && { thread: "isolated" }) },
      })),
    );
  }

  async look(): Promise<Look> {
    await this.lifecycle.start();
    const { sql } = this.ctx.storage;
    const listed = await this.durable.listSubmissions({ limit: 1_000 });
    return {
      agent: this.ctx.id.name ?? "",
      submissions: listed.map((found) => ({
        id: found.submissionId,
        status: found.status,
        attempts: found.attempts,
        error: found.error ?? null,
        waitingFor: found.waitingFor ? JSON.stringify(found.waitingFor) : null,
      })),
      effects: sql
        .exec<{ turn: string; times: number }>("SELECT turn, times FROM effects")
        .toArray(),
    };
  }
}

export default served<Env>({
  submit: async ({ LIMITED }, turns: readonly Turn[]) => {
    const byAgent = Map.groupBy(turns, ({ agent }) => agent);
    const submitted = Array.from(byAgent, ([agent, own]) =>
      LIMITED.getByName(agent).submit(own.map(({ id }) => id)),
    );
    await Promise.all(submitted);
  },
  look: ({ LIMITED }, agents: readonly string[]) =>
    Promise.all(agents.map((agent) => LIMITED.getByName(agent).look())),
});
