/** An app that uses what Think offers, beside durable turns. */

import { action, skills, type TurnContext } from "@cloudflare/think";
import { callable } from "agents";
import { agentTool } from "agents/agent-tools";
import type { ChatRecoveryContext } from "agents/chat";
import type { TaskHandlers, TaskStep } from "agents/tasks";
import { z } from "zod";
import { DurableThink } from "../../../src/hosts/think/index.ts";
import { ScriptedModel } from "../../../src/testing/index.ts";
import { message } from "../../support/given.ts";
import { MCP_URL } from "./mcp-server.ts";

/** What the agent of a name has done, over all restarts. */
export const done = new Map<string, string[]>();

function did(name: string, what: string): void {
  done.set(name, [...(done.get(name) ?? []), what]);
}

const SKILLS = skills.manifest({
  id: "support",
  skills: [
    {
      name: "refunds",
      description: "How to refund an order.",
      body: "Ask for the number of the order first.",
    },
  ],
});

export class OfferThink extends DurableThink<Cloudflare.Env, { count: number }> {
  override initialState = { count: 0 };
  override chatRecovery = { maxAttempts: 3 };

  override getModel() {
    return new ScriptedModel();
  }
  override getTools() {
    return {
      delegate: agentTool(OfferChild, {
        description: "Lets another agent do it.",
        inputSchema: z.object({ query: z.string() }),
      }),
    };
  }
  override getActions() {
    return {
      refund: action({
        description: "Refunds an order.",
        inputSchema: z.object({ order: z.string() }),
        idempotencyKey: ({ input }) => `refund:${input.order}`,
        execute: async ({ order }) => {
          did(this.name, `refunded ${order}`);
          return "refunded";
        },
      }),
      deploy: action({
        description: "Deploys to production.",
        inputSchema: z.object({ ref: z.string() }),
        kind: "durable-pause",
        approval: true,
        approvalSummary: "Deploy to production",
        execute: async ({ ref }) => {
          did(this.name, `deployed ${ref}`);
          return "deployed";
        },
      }),
    };
  }
  override getSkills() {
    return [SKILLS];
  }
  override beforeTurn({ system, tools }: TurnContext) {
    did(this.name, `tools: ${Object.keys(tools).toSorted().join(" ")}`);
    if (system.includes("How to refund an order")) did(this.name, "skills in the instructions");
  }
  override async onChatRecovery({ recoveryKind }: ChatRecoveryContext) {
    did(this.name, `recovery: ${recoveryKind}`);
    return {};
  }
  override readonly taskDefinitions = {
    "note@v1": async (input: { text: string }, step: TaskStep) => {
      await step.do("note", () => this.note(input));
    },
  } satisfies TaskHandlers;

  async note({ text }: { text: string }) {
    await this.submitMessages([message(text)], { idempotencyKey: text });
  }
  async plan() {
    await this.schedule(0, "note", { text: "scheduled" });
    await this.queue("note", { text: "queued" });
    await this.tasks.run("note@v1", { text: "task" });
    return this.runFiber("work", async (fiber) => {
      fiber.stash({ at: 1 });
      const { submissionId } = await this.submitMessages([message("in a fiber")]);
      return (await this.waitForSubmission(submissionId))?.output;
    });
  }
  readFile(path: string) {
    return this.workspace.fs.readFile(path, "utf8");
  }
  async connectMcp() {
    const { state } = await this.addMcpServer("weather", MCP_URL);
    return state;
  }
  /** The events of a turn that `chat()` runs on a sub-agent, and the messages of that sub-agent. */
  async chatWithChild(text: string) {
    const child = await this.subAgent(OfferChild, "child");
    const events: string[] = [];
    await child.chat(text, {
      onStart: () => void events.push("start"),
      onEvent: (json) => void events.push(json),
      onDone: () => void events.push("done"),
      onError: (error) => void events.push(error),
    });
    return { events, messages: JSON.stringify(await child.threadMessages("main")) };
  }
  async increase() {
    this.setState({ count: this.state.count + 1 });
  }
  async ask(text: string) {
    const { submissionId } = await this.submitMessages([message(text)], { thread: "callable" });
    return (await this.waitForSubmission(submissionId))?.output;
  }
}
callable()(OfferThink.prototype.ask, {} as ClassMethodDecoratorContext);

/** What OfferThink delegates to. */
export class OfferChild extends DurableThink<Cloudflare.Env> {
  protected override formatAgentToolInput(input: unknown) {
    return message((input as { query: string }).query);
  }
  override getModel() {
    return new ScriptedModel();
  }
}
