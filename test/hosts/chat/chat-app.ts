/** Apps on `perdure/chat`: one with `durable()` and one without, and what tests read of them. */

import type {
  ChatRecoveryContext,
  ChatResponseResult,
  OnChatMessageOptions,
} from "@cloudflare/ai-chat";
import { callable } from "agents";
import {
  convertToModelMessages,
  type ModelMessage,
  type StepResult,
  stepCountIs,
  streamText,
  type ToolSet,
  tool,
} from "ai";
import { z } from "zod";
import { DurableChatAgent } from "../../../src/hosts/chat/index.ts";
import type { Delivery } from "../../../src/outbox/index.ts";
import type { SubmissionEvent } from "../../../src/submissions/types.ts";
import { RecordingModel } from "../../../src/testing/index.ts";
import { charges, contractTools } from "../../contract/hosts/app.ts";
import { MCP_URL } from "../../contract/hosts/mcp-server.ts";
import { HeldModel } from "../../support/held-model.ts";

/** What the hooks of an object were called with, by its name. */
export const hooks = new Map<string, string[]>();

/** What the model is asked before the conversation, by the object's name. */
export const openings = new Map<string, string>();

/** How long a stream may be silent, by the object's name. */
export const stallTimeouts = new Map<string, number>();

/** The deliveries of the ends of submissions, by submission. */
export const heardEnds = new Map<string, string[]>();

function hear({ id, event }: Delivery): void {
  const { submissionId } = (event as SubmissionEvent).data;
  heardEnds.set(submissionId, [...(heardEnds.get(submissionId) ?? []), id]);
}

function note(name: string, what: string): void {
  hooks.set(name, [...(hooks.get(name) ?? []), what]);
}

function tools() {
  return {
    ...contractTools(),
    // The client runs it.
    where: tool({
      description: "Where the user is.",
      inputSchema: z.object({ unit: z.string() }),
      outputSchema: z.string(),
    }),
    pay: tool({
      description: "Pays an invoice.",
      inputSchema: z.object({ account: z.string() }),
      needsApproval: true,
      execute: ({ account }) => {
        charges.set(account, (charges.get(account) ?? 0) + 1);
        return `Paid ${account}`;
      },
    }),
  };
}

export class ChatApp extends DurableChatAgent<Cloudflare.Env, { visits: number }> {
  override initialState = { visits: 0 };
  override maxSteps = 4;
  override chatStreamStallTimeoutMs = stallTimeouts.get(this.ctx.id.name ?? "") ?? 600_000;
  override chatRecovery = {
    maxAttempts: 3,
    onExhausted: ({ reason }: { reason: string }) => note(this.name, `exhausted: ${reason}`),
  };

  override async onChatMessage(_: unknown, options?: OnChatMessageOptions) {
    const messages: ModelMessage[] = await convertToModelMessages(this.messages);
    const opening = openings.get(this.name);
    if (opening) messages.unshift({ role: "user", content: opening });
    const result = streamText(
      this.durable({
        model: new HeldModel(),
        instructions: "Help.",
        messages,
        tools: { ...tools(), ...this.mcp.getAITools() },
        stopWhen: stepCountIs(5),
        ...(options?.abortSignal && { abortSignal: options.abortSignal }),
        onStepEnd: (step) => {
          // The tools keep their types.
          const account: string | undefined = step.toolCalls.flatMap((call) =>
            call.toolName === "pay" && !call.dynamic ? [call.input.account] : [],
          )[0];
          note(this.name, `step ${step.finishReason}${account ? ` ${account}` : ""}`);
        },
        onError: ({ error }) => note(this.name, `error: ${(error as Error).message}`),
      }),
    );
    return result.toUIMessageStreamResponse();
  }

  protected override onChatResponse({ status, message }: ChatResponseResult) {
    note(this.name, `response: ${status} ${message.role}`);
  }

  protected override async onChatRecovery({ recoveryKind, messages }: ChatRecoveryContext) {
    note(this.name, `recovery: ${recoveryKind}`);
    return { continue: !JSON.stringify(messages).includes("declined") };
  }

  greet(name: string) {
    return `Hello ${name}`;
  }
  /** Of the SDK's own features, each by its result. */
  async ofTheSdk() {
    this.setState({ visits: this.state.visits + 1 });
    await this.schedule(1, "noted", "scheduled");
    await this.queue("noted", "queued");
    const fiber = await this.runFiber("work", async () => "done");
    const child = await this.subAgent(PlainChat, "one");
    return {
      visits: this.state.visits,
      fiber,
      child: await child.listSubmissions(),
      tools: Object.keys(this.mcp.getAITools()),
    };
  }
  async connectMcp() {
    await this.addMcpServer("weather", MCP_URL);
    return Object.keys(this.mcp.getAITools());
  }
  hear(delivery: Delivery) {
    hear(delivery);
  }
  noted(what: string) {
    note(this.name, what);
  }
  chat(text: string) {
    return this.saveMessages((messages) => [
      ...messages,
      { id: crypto.randomUUID(), role: "user", parts: [{ type: "text", text }] },
    ]);
  }
  /** The assistant speaks first. */
  speak() {
    return this.saveMessages([]);
  }
  last(): string {
    return JSON.stringify(this.messages.at(-1));
  }
}

// The decorator, called as a function: the tests are not compiled with decorators.
callable()(ChatApp.prototype.greet, {} as ClassMethodDecoratorContext);

/** A call after a tool breaks off, where the conversation says {@link CUT_AFTER_TOOL}. */
class CutModel extends HeldModel {
  override async doStream(options: Parameters<HeldModel["doStream"]>[0]) {
    const { stream } = await super.doStream(options);
    const { prompt } = options;
    const isCut = prompt.at(-1)?.role === "tool" && JSON.stringify(prompt).includes(CUT_AFTER_TOOL);
    const fail = (controller: TransformStreamDefaultController) =>
      controller.enqueue({ type: "error", error: new Error("Overloaded") });
    return { stream: isCut ? stream.pipeThrough(new TransformStream({ start: fail })) : stream };
  }
}

export const CUT_AFTER_TOOL = "cut after the tool";

/** Without `durable()` and without `getModel()`. */
export class PlainChat extends DurableChatAgent<Cloudflare.Env> {
  hear(delivery: Delivery) {
    hear(delivery);
  }
  override async onChatMessage() {
    const messages = await convertToModelMessages(this.messages);
    const options = {
      model: new CutModel(),
      messages,
      tools: contractTools() as ToolSet,
      stopWhen: stepCountIs(5),
      onStepEnd: (_: StepResult<ToolSet>) => {},
    };
    return streamText(options).toUIMessageStreamResponse({
      onError: (error) => shown((error as Error).message),
    });
  }
}

/** An error for the client. The AI SDK hides all of them by default. */
function shown(message: string): string {
  return message.startsWith("hidden") ? "An error occurred." : message;
}

/** What the model of VariantChat was asked. */
export const recorded = new RecordingModel();

/** Other forms of the options: a prompt, a list of instructions, no `stopWhen`. */
export class VariantChat extends DurableChatAgent<Cloudflare.Env> {
  override async onChatMessage() {
    const text = this.messages.at(-1)?.parts.find((part) => part.type === "text");
    const options = {
      model: recorded,
      instructions: [
        { role: "system" as const, content: "Be brief." },
        { role: "system" as const, content: "Be kind." },
      ],
      prompt: text?.text ?? "",
      tools: contractTools(),
      prepareStep: ({ stepNumber }: { stepNumber: number }) => {
        note(this.name, `prepared ${stepNumber}`);
        return undefined;
      },
    };
    const durable = this.durable(options);
    note(this.name, durable.tools === options.tools ? "as is" : "durable");
    return streamText(durable).toUIMessageStreamResponse();
  }
  chat(text: string) {
    return this.saveMessages((messages) => [
      ...messages,
      { id: crypto.randomUUID(), role: "user", parts: [{ type: "text", text }] },
    ]);
  }
}
