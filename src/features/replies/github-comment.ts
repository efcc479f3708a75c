/**
 * Comments on an issue or a pull request of GitHub.
 *
 * Each comment ends with a hidden marker of its delivery. Before an attempt that may be a repetition, the comments since the
 * delivery was put are searched for it, so an attempt whose outcome is not known is retried. Rate limits (429, or 403 and
 * 422 with their headers or wordings) and a wrong token (401) are retried. Permanent failures: every other 403, 404, 410
 * and 422.
 * https://docs.github.com/en/rest/issues/comments
 * https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api
 */

import { count, oneOf, optionsOf } from "../../core/options/option-schemas.ts";
import { digest } from "../../core/text.ts";
import { POLICY } from "../../outbox/delivery/policy.ts";
import type { WithPolicy } from "../../outbox/destinations/adapter.ts";
import { SECRET_NAME } from "../../outbox/destinations/requests.ts";
import { RefusedError, UndeliverableError } from "../../outbox/errors.ts";
import { type Call, matching, replyKind, type Sending } from "./kind.ts";
import type { MessageRules } from "./message.ts";
import { failureIn, millisecondsOf, type ProviderResponse } from "./provider.ts";

/** An issue or a pull request of GitHub. */
export type GithubCommentDestination = WithPolicy & {
  readonly kind: "github-comment";
  /** The name of the token in `env`, never the token itself. */
  readonly token: string;
  /** `owner/name`. */
  readonly repository: string;
  /** The number of the issue or the pull request. */
  readonly issue: number;
};

/**
 * An issue or a pull request of GitHub. The event is a text, or `{ text }`, in Markdown. A text above 65,536 characters is
 * cut. Mentions in it work as in any comment.
 *
 * @param repository `owner/name`
 * @param options.issue the number of the issue or the pull request
 * @param options.token the name of the secret in `env` that has a token which may write comments
 * @example this.outbox.put(githubComment("octo/shop", { issue: 7, token: "GITHUB_TOKEN" }), { text: "Fixed" })
 */
export function githubComment(
  repository: string,
  options: WithPolicy & { issue: number; token: string },
): GithubCommentDestination {
  return { kind: "github-comment", repository, ...options };
}

const API = "https://api.github.com";
const REPOSITORY = /^[A-Za-z0-9][\w-]{0,99}\/(?!\.\.?$)[\w.-]{1,100}$/;
/** Of the marker with the line before it. */
const MARKER_LENGTH = 64;
const RULES: MessageRules = {
  kind: "github-comment",
  maxLength: 65_536 - MARKER_LENGTH,
  fields: [],
};
/** GitHub's clock and ours may differ. */
const SKEW_MS = 300_000;
const PAGE = 50;
const MAX_PAGES = 20;
/** Of a page: each comment may have 65,536 characters. */
const MAX_PAGE_BYTES = 16 * 1_048_576;
/** Wordings of secondary limits. The last one is that of content that is created too fast, also with the status 422. */
const SECONDARY_LIMIT = /rate.limit|abuse detection|submitted too quickly/i;
/** "Otherwise, wait for at least one minute before retrying." */
const SECONDARY_LIMIT_MS = 60_000;

export const githubComments = replyKind<GithubCommentDestination>("GitHub", {
  api: "github",
  schema: optionsOf<GithubCommentDestination>()({
    kind: oneOf(["github-comment"]),
    token: SECRET_NAME,
    repository: matching(REPOSITORY, '"owner/name"'),
    issue: count({ max: 2_147_483_647 }),
    policy: POLICY.optional(),
  }),
  rules: RULES,
  limits: { timeoutMs: 60_000 },
  keyOf: ({ token, repository }) => [token, repository.toLowerCase()],
  labelOf: ({ repository, issue }) => `${repository}#${issue}`,
  async send(to, sending) {
    const { api = API, attempt, text, id } = sending;
    const marker = `<!-- perdure:${digest(id)} -->`;
    const token = await sending.token(to.token);
    const call: Call = {
      url: `${api}/repos/${to.repository}/issues/${to.issue}/comments`,
      headers: {
        authorization: `Bearer ${token}`,
        accept: "application/vnd.github+json",
        "user-agent": "Perdure",
        "x-github-api-version": "2022-11-28",
      },
      secrets: [token],
    };
    if (attempt.isRepeated && (await isPosted(sending, call, marker))) return;
    // A crash after it makes the next attempt search.
    await attempt.markSending();
    const body = { body: `${text}\n\n${marker}` };
    await sending.request({ ...call, body }, failureUnless(201, sending));
  },
});

/**
 * Whether a comment since a time ends with the marker.
 *
 * @throws UndeliverableError where there are too many comments to search
 */
async function isPosted(sending: Sending, call: Call, marker: string): Promise<boolean> {
  const from = new Date(Math.max(0, sending.attempt.createdAt - SKEW_MS)).toISOString();
  for (let page = 1; page <= MAX_PAGES; page++) {
    const url = `${call.url}?since=${from}&per_page=${PAGE}&page=${page}`;
    const get = { ...call, url, method: "GET", maxBytes: MAX_PAGE_BYTES } as const;
    const response = await sending.request(get, (answer) => {
      const isList = answer.status !== 200 || Array.isArray(answer.json);
      if (!isList) return new Error(`${answer.says}, which is no list of comments`);
      return failureUnless(200, sending)(answer);
    });
    const comments = response.json as readonly { readonly body?: unknown }[];
    const isMarked = ({ body }: { body?: unknown }) =>
      typeof body === "string" && body.trimEnd().endsWith(marker);
    if (comments.some(isMarked)) return true;
    if (comments.length < PAGE) return false;
  }
  throw new UndeliverableError(
    `GitHub has more comments since ${from} than the ${PAGE * MAX_PAGES} that are searched for an earlier attempt`,
  );
}

const failureUnless =
  (success: number, { now }: Sending) =>
  (response: ProviderResponse) =>
    response.status === success ? undefined : errorOf(response, now());

function errorOf(response: ProviderResponse, now: number): Error {
  const { status, headers, says } = response;
  const isSecondary = (status === 403 || status === 422) && SECONDARY_LIMIT.test(says);
  if (status !== 403 && status !== 429 && !isSecondary) return failureIn(response);
  const isUsedUp = headers.get("x-ratelimit-remaining") === "0";
  const resetAt = millisecondsOf(headers.get("x-ratelimit-reset") ?? undefined);
  const untilReset = isUsedUp && resetAt !== undefined ? Math.max(resetAt - now, 1_000) : undefined;
  const isLimited = status === 429 || isUsedUp || isSecondary;
  const waitMs = response.waitMs ?? untilReset ?? (isLimited ? SECONDARY_LIMIT_MS : undefined);
  return waitMs === undefined
    ? new UndeliverableError(says)
    : new RefusedError(says, { retryAfterMs: waitMs });
}
