/** Scheduled tasks as an app declares them on each host. Only compiled, by TypeScript 7 and by 5.9 (`npm run check:consumer`). */

import { DurableObject } from "cloudflare:workers";
import { Lifecycle } from "agents/lifecycle";
import { DurableAgent } from "perdure/agent";
import { DurableChatAgent } from "perdure/chat";
import { type DurableVerbs, durable } from "perdure/object";
import { defineScheduledTasks, schedules } from "perdure/scheduler";
import { DurableThink, defineScheduledTasks as defineThinkTasks } from "perdure/think";

const tasksOf = (name: () => string, topic: () => Promise<string>) =>
  defineScheduledTasks({
    text: { schedule: "every hour", prompt: "Write the digest." },
    made: { schedule: "every hour", prompt: () => `Greet ${name()}` },
    asked: { schedule: "every hour", prompt: async () => topic() },
    handled: { schedule: "every hour", handler: ({ idempotencyKey }) => idempotencyKey.length },
  });

export class ThinkApp extends DurableThink<Cloudflare.Env> {
  override getScheduledTasks() {
    return defineThinkTasks({
      made: { schedule: "every hour", prompt: () => "text" },
      asked: { schedule: "every hour", prompt: async () => this.topic() },
    });
  }
  async topic() {
    return this.name;
  }
}

export class AgentApp extends DurableAgent<Cloudflare.Env> {
  static override readonly features = [schedules()];
  override getScheduledTasks() {
    return defineScheduledTasks({
      made: { schedule: "every hour", prompt: () => "text" },
      asked: { schedule: "every hour", prompt: async () => `About ${this.name}` },
      handled: { schedule: "every hour", handler: async () => this.submissionStats() },
    });
  }
}

export class AnnotatedApp extends DurableAgent<Cloudflare.Env> {
  static override readonly features = [schedules()];
  override getScheduledTasks(): ReturnType<DurableAgent["getScheduledTasks"]> {
    return defineScheduledTasks({ asked: { schedule: "every hour", prompt: async () => "text" } });
  }
}

export class ChatApp extends DurableChatAgent<Cloudflare.Env> {
  static override readonly features = [schedules()];
  override getScheduledTasks() {
    return tasksOf(
      () => this.name,
      async () => "news",
    );
  }
}

// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: durable() adds the verbs to the class.
export class ObjectApp extends DurableObject<Cloudflare.Env> {
  readonly lifecycle = Lifecycle.install(this);
  readonly durable = durable(this, {
    model: "some/model",
    features: [schedules({ tasks: () => this.tasks() })],
  });
  tasks() {
    return defineScheduledTasks({
      made: { schedule: "every hour", prompt: () => "text" },
      handled: { schedule: "every hour", handler: async () => this.durable.submissionStats() },
    });
  }
}
export interface ObjectApp extends DurableVerbs {}

schedules({
  // @ts-expect-error S4: a literal that no defineScheduledTasks() has checked
  tasks: () => ({ late: { schedule: "every day at 25:00", prompt: "go" } }),
});

defineScheduledTasks({
  // @ts-expect-error a prompt takes no arguments: use a handler, which gets the occurrence
  given: { schedule: "every hour", prompt: (topic: string) => topic },
  // @ts-expect-error a prompt returns a text
  counted: { schedule: "every hour", prompt: () => 5 },
  // @ts-expect-error a task has a prompt or a handler, and not both
  both: { schedule: "every hour", prompt: () => "go", handler: () => {} },
});

// @ts-expect-error The package has no root entry.
export { DurableThink as None } from "perdure";
