/** An app on `perdure/chat`. */

import { convertToModelMessages, stepCountIs, streamText } from "ai";
import { DurableChatAgent } from "../../../src/hosts/chat/index.ts";
import { Meter, metered, ScriptedModel } from "../../../src/testing/index.ts";
import { ALL } from "../../support/features.ts";
import { contractTasks, contractTools } from "./app.ts";

export class ChatHost extends DurableChatAgent<Cloudflare.Env> {
  static override readonly features = ALL;
  readonly meter: Meter;
  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    const meter = new Meter();
    super(metered(ctx, meter), env);
    this.meter = meter;
  }
  override async onChatMessage() {
    const options = this.durable({
      model: new ScriptedModel(),
      messages: await convertToModelMessages(this.messages),
      tools: contractTools(),
      stopWhen: stepCountIs(10),
    });
    return streamText(options).toUIMessageStreamResponse();
  }
  override getModel() {
    return new ScriptedModel();
  }
  override getTools() {
    return contractTools();
  }
  override getScheduledTasks() {
    return contractTasks();
  }
  override getScheduledTasksScope() {
    return "all" as const;
  }
  hear(): void {}
}
