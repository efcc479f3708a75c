/** An app that uses what `Agent` offers, beside durable turns. */

import { type Connection, callable, type WSMessage } from "agents";
import { agentTool } from "agents/agent-tools";
import type { TaskHandlers, TaskStep } from "agents/tasks";
import { AgentWorkflow, type AgentWorkflowEvent, type AgentWorkflowStep } from "agents/workflows";
import { tool } from "ai";
import { z } from "zod";
import { DurableAgent } from "../../../src/hosts/agent/index.ts";
import { ScriptedModel } from "../../../src/testing/index.ts";
import { message } from "../../support/given.ts";
import { MCP_URL } from "./mcp-server.ts";
import { OfferChild } from "./offer-think.ts";

export class OfferAgent extends DurableAgent<Cloudflare.Env, { count: number }> {
  override initialState = { count: 0 };
  readonly seen: string[] = [];

  override async onStart() {
    this.seen.push("onStart");
    await this.submitMessages([message("from onStart")], { idempotencyKey: "start" });
  }
  override getModel(id?: string) {
    return new ScriptedModel(undefined, id);
  }
  override getTools() {
    return {
      ...this.mcp.getAITools(),
      delegate: agentTool(OfferChild, {
        description: "Lets another agent do it.",
        inputSchema: z.object({ query: z.string() }),
      }),
      submitAnother: tool({
        description: "Submits a message to another thread and waits for its end.",
        inputSchema: z.object({}),
        execute: async () => {
          const { submissionId } = await this.submitMessages([message("inner")], {
            thread: "inner",
          });
          return (await this.waitForSubmission(submissionId))?.status;
        },
      }),
    };
  }
  override readonly taskDefinitions = {
    "note@v1": async (input: { text: string }, step: TaskStep) => {
      await step.do("note", () => this.note(input));
    },
  } satisfies TaskHandlers;

  async ask(text: string) {
    const { submissionId } = await this.submitMessages([message(text)], { thread: "callable" });
    return (await this.waitForSubmission(submissionId))?.output;
  }
  override onRequest() {
    return new Response(`request to ${this.name}`);
  }
  override onMessage(connection: Connection, text: WSMessage) {
    connection.send(`echo: ${text}`);
  }
  override async onWorkflowProgress(_name: string, _id: string, progress: unknown) {
    this.seen.push(`progress ${JSON.stringify(progress)}`);
  }
  override async onWorkflowComplete(_name: string, _id: string, result?: unknown) {
    this.seen.push(`workflow ${JSON.stringify(result)}`);
  }
  async note(payload: { text: string }) {
    this.seen.push(payload.text);
    await this.submitMessages([message(payload.text)], { idempotencyKey: payload.text });
  }
  async plan() {
    await this.schedule(0, "note", { text: "scheduled" });
    await this.queue("note", { text: "queued" });
    await this.tasks.run("note@v1", { text: "task" });
  }
  async fiber() {
    return this.runFiber("work", async (fiber) => {
      fiber.stash({ at: 1 });
      const { submissionId } = await this.submitMessages([message("in a fiber")]);
      return (await this.waitForSubmission(submissionId))?.output;
    });
  }
  async connectMcp() {
    const { state } = await this.addMcpServer("weather", MCP_URL);
    return { state, tools: Object.keys(this.mcp.getAITools()) };
  }
  /** The output of a submission of a sub-agent of the same class. */
  async askChild(text: string) {
    const child = await this.subAgent(OfferAgent, "child");
    return child.ask(text);
  }
  startWorkflow(text: string) {
    return this.runWorkflow("OFFER_WORKFLOW", { text });
  }
  async increase() {
    this.setState({ count: this.state.count + 1 });
  }
  read() {
    return [...this.seen];
  }
}
callable()(OfferAgent.prototype.ask, {} as ClassMethodDecoratorContext);

/** A workflow of the SDK, without the steps of Perdure. */
export class OfferWorkflow extends AgentWorkflow<OfferAgent, { text: string }> {
  override async run({ payload }: AgentWorkflowEvent<{ text: string }>, step: AgentWorkflowStep) {
    const answer = await step.do("ask", async () => {
      await this.reportProgress({ step: "ask", status: "running" });
      return String(await this.agent.ask(payload.text));
    });
    await step.reportComplete({ answer });
    return { answer };
  }
}
