/** A worker whose spans a streaming tail gets: the ledger, the outbox and the scheduler on a plain object, with a scripted model. */

import { DurableObject } from "cloudflare:workers";
import { Lifecycle } from "agents/lifecycle";
import { Sessions } from "agents/sessions";
import { tool } from "ai";
import { z } from "zod";
import { SdkTurns } from "../../../../src/hosts/sdk/sdk-turns.ts";
import { method, Outbox } from "../../../../src/outbox/index.ts";
import { Scheduler } from "../../../../src/scheduler/index.ts";
import type { Turn, TurnHost } from "../../../../src/submissions/host.ts";
import { Submissions } from "../../../../src/submissions/submissions.ts";
import { ScriptedModel } from "../../../../src/testing/scripted-model.ts";

export class TracedObject extends DurableObject<Cloudflare.Env> {
  readonly sessions = new Sessions();
  readonly lifecycle = Lifecycle.install(this).use(this.sessions);
  readonly outbox = new Outbox({ host: this, env: this.env });
  readonly submissions: Submissions = new Submissions(this.#host(), this.outbox);
  readonly scheduler = new Scheduler({
    tasks: () => ({ nightly: { schedule: "every day at 03:00 in UTC", handler: async () => {} } }),
  });
  readonly #delivered = Promise.withResolvers<void>();

  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    super(ctx, env);
    this.lifecycle.use(this.outbox).use(this.submissions).use(this.scheduler);
  }

  /** A turn with a tool and a notification, and a scheduled run. */
  async play(script: object): Promise<string> {
    const text = JSON.stringify(script);
    const message = { id: "m", role: "user", parts: [{ type: "text", text }] } as const;
    const { submissionId } = await this.submissions.submit(
      [{ ...message, parts: [...message.parts] }],
      {
        thread: "isolated",
        notify: method("onEnd"),
      },
    );
    await this.submissions.wait(submissionId);
    await this.#delivered.promise;
    await this.scheduler.trigger("nightly");
    await new Promise((resolve) => setTimeout(resolve, 100));
    return submissionId;
  }

  async onEnd(): Promise<void> {
    this.#delivered.resolve();
  }

  #host(): TurnHost {
    const charge = tool({ inputSchema: z.object({}), execute: async () => "charged" });
    const turns = new SdkTurns({
      source: async ({ messagesFor }) => ({
        model: new ScriptedModel(),
        messages: await messagesFor({ charge }),
        tools: { charge },
        maxSteps: 5,
        spans: { agentName: "Traced", agentId: "one" },
      }),
      sessions: this.sessions,
      ledger: () => this.submissions.turns,
    });
    return {
      start: () => {},
      run: (turn: Turn) => turns.run(turn),
      stop: () => {},
      inspectConversation: (turn) => turns.inspectConversation(turn),
      isRecovering: async () => false,
      removeMessages: (turn) => turns.removeMessages(turn),
      submissionOf: () => undefined,
      onStatus: async () => {},
      isInHostContext: () => false,
      isInsideTurn: () => false,
    };
  }
}

type Env = { OBJECT: DurableObjectNamespace<TracedObject> };

export default {
  async fetch(request: Request, { OBJECT }: Env): Promise<Response> {
    const object = OBJECT.getByName("one") as unknown as TracedObject;
    return new Response(await object.play(await request.json()));
  },
};
