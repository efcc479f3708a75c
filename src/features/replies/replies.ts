/** The feature that sends replies: it installs their kinds of destinations in the outbox. */

import { optionsOf, readOptions, text } from "../../core/options/option-schemas.ts";
import { invalidAt, invalidMessage } from "../../core/options/options.ts";
import type { AdapterContext } from "../../outbox/destinations/adapter.ts";
import { isPrivateHost } from "../../outbox/destinations/requests.ts";
import type { Outbox } from "../../outbox/outbox.ts";
import { type DiscordDestination, discordMessages } from "./discord.ts";
import { type EmailDestination, emails } from "./email.ts";
import { type GithubCommentDestination, githubComments } from "./github-comment.ts";
import type { ReplyKind } from "./kind.ts";
import type { ProviderApis } from "./provider.ts";
import { type SlackDestination, slackMessages } from "./slack.ts";
import { type TelegramDestination, telegramMessages } from "./telegram.ts";

/** A destination that sends a message to a person. */
export type ReplyDestination =
  | SlackDestination
  | DiscordDestination
  | TelegramDestination
  | GithubCommentDestination
  | EmailDestination;

export type ReplyOptions = {
  /** Base URLs of the providers' APIs, e.g. of GitHub Enterprise Server, or of a fake in a test. */
  readonly apis?: ProviderApis;
};

export type Replies = {
  readonly feature: "replies";
  /** Called for each object, in its constructor. For an `Outbox` of your own: `replies().install({ outbox })`. */
  install(object: { readonly outbox: Pick<Outbox, "install"> }): void;
};

/**
 * Lets the outbox send `slack()`, `discord()`, `telegram()`, `githubComment()` and `email()`.
 *
 * @throws InvalidOptionError
 * @example
 * export class Support extends DurableThink<Env> {
 *   static override readonly features = [replies()];
 * }
 */
export function replies(options: ReplyOptions = {}): Replies {
  const { apis } = readOptions(OPTIONS, options, "options of replies()");
  const kinds = Object.entries(KINDS).map(([kind, { schema, connect }]) => {
    const connected = (context: AdapterContext) => {
      if (!context.allowPrivateAddresses) refusePrivate(apis);
      return connect(context, apis);
    };
    return [kind, { schema, connect: connected }] as const;
  });
  return {
    feature: "replies",
    install: ({ outbox }) => outbox.install(Object.fromEntries(kinds)),
  };
}

const KINDS: Readonly<Record<ReplyDestination["kind"], ReplyKind<never>>> = {
  slack: slackMessages,
  discord: discordMessages,
  telegram: telegramMessages,
  "github-comment": githubComments,
  email: emails,
};

const api = () =>
  text({ maxLength: 1_024 })
    .refine(isBaseUrl, {
      error:
        'expected an https: URL without a slash at its end, such as "https://github.example.com/api/v3"',
    })
    .optional();
const APIS = optionsOf<ProviderApis>()({
  slack: api(),
  discord: api(),
  telegram: api(),
  github: api(),
});
const OPTIONS = optionsOf<ReplyOptions>()({ apis: APIS.prefault({}) });

/** Whether paths can be appended to it. Plain `http:` is for private addresses. */
function isBaseUrl(text: string): boolean {
  const url = URL.parse(text);
  if (url === null || url.href.replace(/\/$/, "") !== text || url.search + url.hash !== "")
    return false;
  const isSafe =
    url.protocol === "https:" || (url.protocol === "http:" && isPrivateHost(url.hostname));
  return isSafe && url.username + url.password === "";
}

function refusePrivate(apis: ProviderApis): void {
  for (const [name, url] of Object.entries(apis)) {
    if (!isPrivateHost(new URL(url).hostname)) continue;
    const expected =
      "expected a public host. For development, set allowPrivateAddresses of the outbox";
    throw invalidAt(`apis.${name}`, invalidMessage(`apis.${name}`, JSON.stringify(url), expected));
  }
}
