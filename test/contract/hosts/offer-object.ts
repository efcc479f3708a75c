/** A plain Durable Object that uses the SDK's capabilities, beside durable turns. */

import { DurableObject } from "cloudflare:workers";
import { Lifecycle } from "agents/lifecycle";
import { MCPClientManager } from "agents/mcp/client";
import { Queue } from "agents/queue";
import { Scheduler } from "agents/schedules";
import { Sessions } from "agents/sessions";
import { State } from "agents/state";
import { Streams } from "agents/streams";
import { type TaskStep, Tasks } from "agents/tasks";
import { WebSockets } from "agents/websockets";
import {
  type DurableOptions,
  type DurableVerbs,
  durable,
} from "../../../src/hosts/object/index.ts";
import { defineScheduledTasks } from "../../../src/scheduler/define.ts";
import { ScriptedModel } from "../../../src/testing/index.ts";
import { allWith } from "../../support/features.ts";
import { message, refusal } from "../../support/given.ts";
import { MCP_URL } from "./mcp-server.ts";

// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: durable() adds the verbs to the class.
export class OfferObject extends DurableObject<Cloudflare.Env> {
  readonly seen: string[] = [];
  readonly sessions = new Sessions();
  readonly queue = new Queue({
    callbacks: { note: (payload: { text: string }) => this.note(payload.text) },
  });
  readonly scheduler = new Scheduler({
    callbacks: { note: (payload: { text: string }) => this.note(payload.text) },
  });
  readonly tasks = new Tasks({
    definitions: {
      "note@v1": async (input: { text: string }, step: TaskStep) => {
        await step.do("note", () => this.note(input.text));
      },
    },
  });
  readonly state = new State({ initialState: { count: 0 } });
  readonly webSockets = new WebSockets({
    state: this.state,
    handlers: { onMessage: (connection, text) => connection.send(`echo: ${text}`) },
  });
  readonly mcp = new MCPClientManager("offer", "1.0.0");
  readonly streams = new Streams();
  readonly lifecycle = Lifecycle.install(this)
    .use(this.mcp)
    .use(this.streams)
    .use(this.state)
    .use(this.webSockets)
    .use(this.sessions)
    .use(this.queue)
    .use(this.scheduler)
    .use(this.tasks);
  readonly durable = durable(this, {
    features: allWith(() => defineScheduledTasks({})),
    model: (id) => new ScriptedModel(undefined, id),
    tools: () => this.mcp.getAITools(),
    sessions: this.sessions,
    webSockets: this.webSockets,
    shouldSendSubmission: () => true,
  });

  onStart() {
    this.seen.push("onStart");
  }
  onAlarm() {
    this.seen.push("onAlarm");
  }
  onRequest() {
    return new Response(`request to ${this.lifecycle.name}`);
  }
  /** A method with the name of a verb. */
  async submissionStats() {
    return "own" as never;
  }
  async note(text: string) {
    this.seen.push(text);
    await this.durable.submitMessages([message(text)], { idempotencyKey: text });
  }
  async plan() {
    await this.lifecycle.start();
    await this.queue.push("note", { text: "queued" });
    await this.scheduler.set(0, "note", { text: "scheduled" });
    await this.tasks.run("note@v1", { text: "task" });
  }
  read() {
    return [...this.seen];
  }
  async connectMcp() {
    await this.lifecycle.start();
    const callbackUrl = "https://app.example.com/callback";
    await this.mcp.registerServer("weather", { url: MCP_URL, name: "weather", callbackUrl });
    await this.mcp.connectToServer("weather");
    await this.mcp.discoverIfConnected("weather");
    return Object.keys(this.mcp.getAITools());
  }
  /** Appends to a durable stream of the app, and returns all of it. */
  async stream(...chunks: string[]) {
    await this.lifecycle.start();
    const stream = await this.streams.open("report");
    for (const chunk of chunks) stream.append(chunk);
    stream.close();
    const read: unknown[] = [];
    for await (const chunk of this.streams.read("report")) read.push(chunk);
    return JSON.stringify(read);
  }
  /** The message of the error for these options, or for a second call. */
  async refused(options: unknown, object: unknown = this) {
    const call = async () => durable(object as never, options as DurableOptions);
    return (await refusal(call())).message;
  }
  async refusedWithoutLifecycle() {
    return this.refused({ model: new ScriptedModel() }, {});
  }
}
export interface OfferObject extends DurableVerbs {}

/** Its class has the same verbs, and other options. */
// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: durable() adds the verbs to the class.
export class OtherObject extends DurableObject<Cloudflare.Env> {
  readonly lifecycle = Lifecycle.install(this);
  readonly durable = durable(this, {
    features: allWith(() => defineScheduledTasks({})),
    model: () => new ScriptedModel({ text: "other" }),
  });
}
export interface OtherObject extends DurableVerbs {}
