/**
 * The outbox alone on a plain Durable Object. The script of its name says what its destinations do. As with a request, an
 * event reaches them only when earlier writes are durable.
 */

import { type Clock, systemClock } from "../../../src/core/clock.ts";
import { type ProviderApis, replies } from "../../../src/features/replies/index.ts";
import {
  type TelegramDestination,
  telegramMessages,
} from "../../../src/features/replies/telegram.ts";
import { collectors } from "../../../src/operator/otlp/collector.ts";
import {
  type Adapter,
  type AdapterContext,
  type AttemptContext,
  type DeadLetter,
  type Delivery,
  type Destination,
  type OtlpDestination,
  Outbox,
  type OutboxSettings,
  type QueueDestination,
  type ReferencedDelivery,
  type WebhookDestination,
  type WorkflowDestination,
} from "../../../src/outbox/index.ts";
import { kindsWith } from "../kinds.ts";
import { MeteredObject } from "./metered-object.ts";

export type Sent = Delivery | ReferencedDelivery;

export type OutboxScript = {
  readonly settings?: OutboxSettings;
  readonly clock?: Clock;
  /** Bindings beside those of this Worker, e.g. the tokens of replies. */
  readonly env?: object;
  /** Takes what is sent, or throws. */
  readonly deliver: (
    sent: Sent,
    to: Destination,
    object: OutboxObject,
    attempt: AttemptContext,
  ) => Promise<void> | void;
  /** Base URLs of the providers of replies. */
  readonly apis?: ProviderApis;
  /** Whether `deliver` also stands for Telegram, which does not recognize a repetition. */
  readonly isTelegram?: boolean;
  /** Whether `replies()` is not installed. */
  hasNoReplies?: boolean;
  /** The hook of dead letters. */
  readonly onDeadLetter?: (letter: DeadLetter) => void | Promise<void>;
  /** Called at each construction, before the start. */
  readonly born?: (object: OutboxObject, ctx: DurableObjectState) => void;
};

/** By the object's name. */
export const outboxScripts = new Map<string, OutboxScript>();

/** The limit of a queue in bytes. The other destinations have none. */
const QUEUE_BYTES = 8_192;

export class OutboxObject extends MeteredObject {
  readonly outbox: Outbox;

  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    super(ctx, env);
    const script: OutboxScript = outboxScripts.get(ctx.id.name ?? "") ?? { deliver: () => {} };
    const scripted = <To extends Destination>(
      keyOf: (to: To) => string,
      maxBytes = Number.POSITIVE_INFINITY,
    ): Partial<Adapter<To>> => ({
      problemOf: () => undefined,
      keyOf,
      maxBytes,
      timeoutMs: 30_000,
      deliver: async (to, sent, _signal, attempt) => {
        await ctx.storage.sync();
        await script.deliver(sent, to, this, attempt);
      },
    });
    this.outbox = new Outbox({
      ...script.settings,
      host: this,
      env: { ...env, ...script.env },
      clock: script.clock ?? systemClock,
      onDeadLetter: (letter) => script.onDeadLetter?.(letter),
    });
    const parts = {
      workflow: scripted<WorkflowDestination>(({ instance }) => `workflow ${instance}`),
      queue: scripted<QueueDestination>(({ queue }) => `queue ${queue}`, QUEUE_BYTES),
      webhook: scripted<WebhookDestination>(({ url }) => `webhook ${url}`),
    };
    this.outbox.install(kindsWith(parts));
    const otlp = scripted<OtlpDestination>(({ url }) => `otlp ${url}`);
    this.outbox.install(kindsWith({ otlp }, { otlp: collectors(async () => null) }));
    if (!script.hasNoReplies) replies(script.apis && { apis: script.apis }).install(this);
    if (script.isTelegram) {
      const telegram = scripted<TelegramDestination>(({ chat }) => `telegram ${chat}`);
      const { schema, connect } = telegramMessages;
      const kinds = {
        telegram: { schema, connect: (context: AdapterContext) => connect(context, {}) },
      };
      this.outbox.install(kindsWith({ telegram }, kinds));
    }
    this.lifecycle.use(this.outbox);
    script.born?.(this, ctx);
  }
}
