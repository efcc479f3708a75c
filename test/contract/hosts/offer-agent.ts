/** An app that uses what `Agent` offers, beside durable turns. */

import { type Connection, callable, type WSMessage } from "agents";
import { tool } from "ai";
import { z } from "zod";
import { DurableAgent } from "../../../src/hosts/agent/index.ts";
import { ScriptedModel } from "../../../src/testing/index.ts";
import { message } from "../../support/given.ts";

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
  async note(payload: { text: string }) {
    this.seen.push(payload.text);
    await this.submitMessages([message(payload.text)], { idempotencyKey: payload.text });
  }
  async plan() {
    await this.schedule(0, "note", { text: "scheduled" });
    await this.queue("note", { text: "queued" });
  }
  async fiber() {
    return this.runFiber("work", async (fiber) => {
      fiber.stash({ at: 1 });
      const { submissionId } = await this.submitMessages([message("in a fiber")]);
      return (await this.waitForSubmission(submissionId))?.output;
    });
  }
  async increase() {
    this.setState({ count: this.state.count + 1 });
  }
  read() {
    return [...this.seen];
  }
}
callable()(OfferAgent.prototype.ask, {} as ClassMethodDecoratorContext);
