/** GitHub: https://docs.github.com/webhooks/using-webhooks/validating-webhook-deliveries */

import type { ReplyDestination } from "../../../replies/replies.ts";
import { payloadOf } from "../form.ts";
import { endpoint, type PresetOf, secretName } from "../preset.ts";
import { checkHmac } from "../verify.ts";

/** The fields that most of GitHub's deliveries have. Pass a `schema` for more. */
export type GitHubBody = {
  readonly action?: string;
  readonly repository: { readonly full_name: string; readonly name: string };
  readonly sender: { readonly login: string };
  readonly issue?: {
    readonly number: number;
    readonly title: string;
    readonly body: string | null;
  };
  readonly pull_request?: {
    readonly number: number;
    readonly title: string;
    readonly body: string | null;
  };
};

type GitHubToken = {
  /** The name of the secret in env that has a token for comments. Without it, arrivals have no `reply`. */
  readonly token?: string;
};

/** Receives webhooks of GitHub, as JSON or as a form. The id is that of `X-GitHub-Delivery`, the type that of the event. */
export const github: PresetOf<GitHubBody, GitHubToken> = (options) =>
  endpoint(
    {
      name: "github",
      // GitHub waits for 10 seconds.
      timeLimit: 9_000,
      options: { token: secretName },
      form: payloadOf,
      verify({ headers, raw, secrets }) {
        const signatures = [headers.get("x-hub-signature-256")];
        const prefix = "sha256=";
        return checkHmac({ encoding: "hex", keys: secrets, message: [raw], prefix, signatures });
      },
      handshake: (_body, { headers }) =>
        headers.get("x-github-event") === "ping"
          ? Response.json({ verdict: "handshake" })
          : undefined,
      identify: (_body, { headers }) => ({
        id: headers.get("x-github-delivery") ?? undefined,
        type: headers.get("x-github-event") ?? "",
      }),
      reply: (body) => commentsOf(body as Partial<GitHubBody>, options.token),
    },
    options,
  );

/** A comment on the issue or the pull request. */
function commentsOf(
  { repository, issue, pull_request }: Partial<GitHubBody>,
  token: string | undefined,
): ReplyDestination | undefined {
  const number = (issue ?? pull_request)?.number;
  if (token === undefined || !repository || number === undefined) return undefined;
  return { kind: "github-comment", token, repository: repository.full_name, issue: number };
}
