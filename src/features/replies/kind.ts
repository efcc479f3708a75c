/** A kind of destination that sends messages: what all of them have in common. One provider is one file beside it. */

import type * as z from "zod";
import { because, failureOf as readFailure } from "../../core/failures.ts";
import { preview } from "../../core/json.ts";
import type {
  Adapter,
  AdapterContext,
  AttemptContext,
  Delivery,
  WithPolicy,
} from "../../outbox/destinations/adapter.ts";
import { checked, problemOfSecret } from "../../outbox/destinations/requests.ts";
import {
  type Message,
  type MessageRules,
  messageOf,
  problemOfMessage,
  reportCut,
} from "./message.ts";
import {
  type ProviderApis,
  type ProviderRequest,
  type ProviderResponse,
  request,
  tokenOf,
} from "./provider.ts";

type AnyTo = WithPolicy & { readonly kind: string; readonly token?: string };

/** One message on its way. */
export type Sending = Message & {
  readonly id: string;
  readonly event: unknown;
  readonly env: object;
  readonly attempt: AttemptContext;
  readonly now: () => number;
  /** The base URL of the provider's API that the app has set. */
  readonly api: string | undefined;
  /** The value of the secret. */
  token(name: string): Promise<string>;
  /**
   * Sends a request.
   *
   * @param failureOf undefined for a success
   * @throws the failure of the response
   */
  request(
    call: Call,
    failureOf: (response: ProviderResponse) => Error | undefined,
  ): Promise<ProviderResponse>;
};

export type Call = Omit<ProviderRequest, "provider" | "signal" | "now">;

/** What differs between the providers. */
export type Provider<To extends AnyTo> = {
  readonly api?: keyof ProviderApis;
  readonly schema: z.ZodType<AnyTo>;
  readonly rules: MessageRules;
  readonly limits?: Partial<Pick<Adapter, "timeoutMs" | "repeatableMs">>;
  /** Messages of equal keys are sent one after the other. */
  keyOf(to: To): unknown;
  labelOf(to: To): string;
  /** By default, that of the token. */
  problemOf?(to: To, env: object): ReturnType<Adapter["problemOf"]>;
  /** What is wrong with an event besides its text and the names of its fields. */
  problemOfEvent?(event: unknown): string | undefined;
  /** @throws why it has failed */
  send(to: To, sending: Sending): Promise<unknown>;
};

/** A kind of destination, before the base URLs of the APIs are known. */
export type ReplyKind<To> = {
  readonly schema: z.ZodType<AnyTo>;
  connect(
    context: Pick<AdapterContext, "env" | "reportProblem" | "now">,
    apis: ProviderApis,
  ): Adapter<To>;
};

/** @param name of the provider, in errors */
export function replyKind<To extends AnyTo>(name: string, provider: Provider<To>): ReplyKind<To> {
  const { rules, schema, api, limits, keyOf, labelOf, problemOfEvent, send } = provider;
  const ofToken: Provider<To>["problemOf"] = ({ token }, env) =>
    token === undefined ? undefined : problemOfSecret(env, "token", token);
  const { problemOf = ofToken } = provider;
  const connect: ReplyKind<To>["connect"] = (context, apis) => ({
    maxBytes: Number.POSITIVE_INFINITY,
    timeoutMs: 30_000,
    ...limits,
    keyOf: (to) => `${rules.kind} ${JSON.stringify(keyOf(to))}`,
    labelOf,
    problemOf: (to) => problemOf(to, context.env),
    problemOfEvent: (event) => problemOfMessage(event, rules) ?? problemOfEvent?.(event),
    async deliver(to, delivery: Delivery, signal, attempt) {
      const { env, now } = context;
      const message = messageOf(delivery, rules);
      await send(to, {
        ...{ ...message, id: delivery.id, event: delivery.event, env, attempt, now },
        api: api && apis[api],
        token: (secret) => tokenOf(env, secret, signal),
        request: async (call, failureOf) => {
          const response = await request({ provider: name, signal, now, ...call });
          const failure = failureOf(response);
          if (failure)
            throw readFailure(failure).cause
              ? failure
              : because(failure, "answered", response.status);
          return response;
        },
      });
      reportCut(context, delivery, message, rules);
    },
  });
  return { schema, connect };
}

/** A text of a destination. @param isShown false for a secret */
export const matching = (
  isValid: RegExp | ((value: string) => boolean),
  expected: string,
  isShown = true,
) =>
  checked<string>((value) => {
    const fits = (text: string) =>
      typeof isValid === "function" ? isValid(text) : isValid.test(text);
    if (typeof value === "string" && fits(value)) return undefined;
    return { given: isShown ? preview(value) : "(not shown)", expected: `expected ${expected}` };
  });

/** The check of a destination that has one of two forms. @param problemOf the field and what it expects */
export const oneForm =
  <To>(problemOf: (to: To) => readonly [field: string, expected: string] | false) =>
  (ctx: z.core.ParsePayload<To>): void => {
    const problem = problemOf(ctx.value);
    if (!problem) return;
    const [field, expected] = problem;
    const message = `expected ${expected}`;
    const params = { given: "(not shown)" };
    ctx.issues.push({ code: "custom", input: ctx.value, path: [field], message, params });
  };
