/** One destination of each kind of reply, its adapter, and what its provider answers. */

import { discordMessages } from "../../../src/features/replies/discord.ts";
import { emails } from "../../../src/features/replies/email.ts";
import { githubComments } from "../../../src/features/replies/github-comment.ts";
import {
  discord,
  email,
  githubComment,
  type ProviderApis,
  slack,
  telegram,
} from "../../../src/features/replies/index.ts";
import { slackMessages } from "../../../src/features/replies/slack.ts";
import { telegramMessages } from "../../../src/features/replies/telegram.ts";
import type {
  Adapter,
  AdapterContext,
  AttemptContext,
  Delivery,
} from "../../../src/outbox/destinations/adapter.ts";
import type { Destination } from "../../../src/outbox/index.ts";
import { contextOf, FIRST } from "../../support/attempts.ts";
import type { Answer } from "./fake-provider.ts";

/** Not real ones. */
export const TOKEN = "123456:the-token-of-the-tests";
export const SECRETS = { TOKEN, STORED: { get: async () => ` ${TOKEN}\n` } };
export const INTERACTION = "aW50ZXJhY3Rpb246MTIzNDU2Nzg5MDEyMzQ1Njc4OTA";

export const TO = {
  slack: slack("C0123456789", { token: "TOKEN", thread: "1712345678.123456" }),
  discord: discord("1122334455667788990", { token: "TOKEN", replyTo: "1122334455667788991" }),
  interaction: discord({ application: "1122334455667788992", interaction: INTERACTION }),
  telegram: telegram(-100123, { token: "TOKEN", thread: 4, replyTo: 5 }),
  github: githubComment("octo/shop", { issue: 7, token: "TOKEN" }),
  email: email({
    binding: "EMAIL",
    from: "shop@example.com",
    to: "ann@example.org",
    subject: "Re: My order",
    inReplyTo: "<b@example.org>",
    references: "<a@example.org>",
  }),
} as const satisfies Record<string, Destination>;

/** Of those that send a request. */
export type Name = Exclude<keyof typeof TO, "email">;
export const NAMES: readonly Name[] = ["slack", "discord", "interaction", "telegram", "github"];

/** Success. */
export const DONE: Readonly<Record<Name, Answer>> = {
  slack: { status: 200, body: { ok: true, ts: "1" } },
  discord: { status: 200, body: { id: "1" } },
  interaction: { status: 200, body: { id: "1" } },
  telegram: { status: 200, body: { ok: true, result: {} } },
  github: { status: 201, body: { id: 1 } },
};

/** The base URLs of all providers. */
export const apisAt = (url: string) => ({ slack: url, discord: url, telegram: url, github: url });

/** Delivers as the outbox would. `marks` counts the calls of `markSending()`. */
export async function sendTo(
  to: Destination,
  event: unknown,
  {
    env = SECRETS,
    attempt = {},
    id = "e:0",
    apis = {},
    ...context
  }: {
    env?: object;
    attempt?: Partial<AttemptContext>;
    id?: string;
    apis?: ProviderApis;
  } & Partial<Pick<AdapterContext, "reportProblem">>,
) {
  const all = contextOf(env, context);
  const adapter = {
    slack: slackMessages,
    discord: discordMessages,
    telegram: telegramMessages,
    "github-comment": githubComments,
    email: emails,
  }[to.kind as "slack"].connect(all, apis) as Adapter<Destination>;
  let marks = 0;
  const delivery: Delivery = { id, attempt: 1, event };
  const failure = await adapter
    .deliver(to, delivery, AbortSignal.timeout(10_000), {
      ...FIRST,
      createdAt: Date.now(),
      markSending: async () => void marks++,
      ...attempt,
    })
    .then(
      () => undefined,
      (error: Error) => error,
    );
  return { failure, marks, adapter };
}

/** The event of a submission's end. */
export const endOf = (status: string, output?: unknown) => ({
  type: `submission.${status}`,
  timestamp: "2026-01-01T00:00:00.000Z",
  data: { submissionId: "s", status, thread: "main", attempts: 1, output, error: "TypeError in x" },
});
