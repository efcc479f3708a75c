/** A Think agent whose tools have effects that outlive it, and the object that counts them. */

import { DurableObject } from "cloudflare:workers";
import type { TurnConfig, TurnContext } from "@cloudflare/think";
import { APICallError, tool } from "ai";
import { z } from "zod";
import { safeToRepeat } from "../../../../src/hosts/think/index.ts";
import { HeldModel } from "../../../support/held-model.ts";
import { ThinkAgent } from "../../../support/think-agent.ts";

/** Counts effects in its own storage. */
export class Till extends DurableObject<Cloudflare.Env> {
  /** @returns how often the effect has happened, with this time */
  async add(effect: string): Promise<number> {
    const count = (await this.count(effect)) + 1;
    await this.ctx.storage.put(effect, count);
    return count;
  }

  async count(effect: string): Promise<number> {
    return (await this.ctx.storage.get<number>(effect)) ?? 0;
  }
}

const input = z.object({
  /** What is counted. */
  effect: z.string(),
  /** How long it takes after the effect. */
  ms: z.number().optional(),
  /** What it throws then. */
  fail: z.string().optional(),
  /** What it returns in place of a receipt. */
  gives: z.enum(["large", "cycle", "undefined"]).optional(),
  /** Anything that the tool ignores. */
  note: z.unknown().optional(),
});

type Input = z.infer<typeof input>;

/** How many calls of the model right after a tool fail with 429, by the agent's name. */
export const limited = new Map<string, number>();
/** What the model was last asked, as JSON, by the agent's name. */
export const lastAsked = new Map<string, string>();
/** Names of agents that have an MCP server. */
export const mcpTools = new Set<string>();

class LimitedModel extends HeldModel {
  constructor(private readonly agent: string) {
    super();
  }

  override async doStream(options: Parameters<HeldModel["doStream"]>[0]) {
    lastAsked.set(this.agent, JSON.stringify(options.prompt));
    const left = limited.get(this.agent) ?? 0;
    if (left === 0 || options.prompt.at(-1)?.role !== "tool") return super.doStream(options);
    limited.set(this.agent, left - 1);
    const request = { url: "http://model.test", requestBodyValues: {} };
    throw new APICallError({
      ...request,
      message: "slow down",
      statusCode: 429,
      isRetryable: false,
    });
  }
}

/** Effects that happened and whose tool knows it, over all starts of agents. */
export const paid = new Set<string>();

export class ToolAgent extends ThinkAgent {
  override async onStart(): Promise<void> {
    await super.onStart();
    if (mcpTools.has(this.name)) this.#connect();
  }

  /** An MCP server, as the SDK's client has it when it is connected. */
  #connect(): void {
    const inputSchema = { type: "object" };
    const tools = ["pay", "look"].map((name) => ({ name, inputSchema }));
    const callTool = async ({ arguments: call }: { arguments: Input }) => ({
      content: [{ type: "text", text: JSON.stringify(await this.#pay(call)) }],
    });
    Object.assign(this.mcp.mcpConnections, { server: { connectionState: "ready", tools } });
    Object.assign(this.mcp, { callTool });
  }

  /** Think gives up after five resets of one turn, by default. */
  override chatRecovery = { maxInterruptedAttempts: 10 };

  override getModel() {
    return new LimitedModel(this.name);
  }

  async submitToPayingChild(text: string, submissionId: string): Promise<void> {
    const child = await this.subAgent(ToolAgent, "child");
    const parts = [{ type: "text" as const, text }];
    await child.submitMessages([{ id: submissionId, role: "user", parts }], { submissionId });
  }

  async childStatus(submissionId: string): Promise<string | undefined> {
    const child = await this.subAgent(ToolAgent, "child");
    return (await child.inspectSubmission(submissionId))?.status;
  }

  override getTools() {
    const description = "Pays.";
    const execute = (call: Input) => this.#pay(call);
    const pay = tool({ description, inputSchema: input, execute });
    const pages = tool({
      description,
      inputSchema: input,
      async *execute(call: Input) {
        yield { page: 1 };
        yield await execute(call);
      },
    });
    return { ...super.getTools(), pay, other: { ...pay }, pages, look: safeToRepeat(pay) };
  }

  /** As an app marks a tool that it does not build itself. */
  override beforeTurn(ctx: TurnContext): TurnConfig | undefined {
    const { tool_server_look: look } = ctx.tools;
    return {
      ...super.beforeTurn(ctx),
      ...(look && { tools: { tool_server_look: safeToRepeat(look) } }),
    };
  }

  async #pay({ effect, ms = 0, fail, gives }: Input): Promise<unknown> {
    const receipt = await this.env.Till.getByName("till").add(effect);
    paid.add(effect);
    // A repetition need not be interrupted.
    if (receipt === 1) await new Promise((resolve) => setTimeout(resolve, ms));
    if (fail !== undefined) throw new TypeError(fail);
    if (gives === "undefined") return undefined;
    if (gives === "large") return "x".repeat(1_000_001);
    const cycle: { self?: unknown } = {};
    cycle.self = cycle;
    return gives === "cycle" ? cycle : { receipt };
  }

  /** What the main conversation says of calls: `tool state: output or error`. */
  async calls(): Promise<string[]> {
    return (await this.getMessages()).flatMap(({ parts }) =>
      parts.flatMap((part) => {
        if (!part.type.startsWith("tool-")) return [];
        const { state, output, errorText } = part as {
          state: string;
          output?: unknown;
          errorText?: string;
        };
        return [`${part.type} ${state}: ${errorText ?? JSON.stringify(output)}`];
      }),
    );
  }

  /** The recorded calls, as they are stored. */
  async records() {
    return this.ctx.storage.sql
      .exec(
        "SELECT ordinal, tool, outcome, LENGTH(value) AS length FROM perdure_tool_calls ORDER BY seq, ordinal",
      )
      .toArray();
  }
}
