/**
 * Comments on an issue or a pull request of GitHub.
 *
 * Each comment ends with a hidden marker of its delivery. Before an attempt that may be a repetition, the comments since the
 * delivery was put are searched for it, so an attempt whose outcome is not known is retried. Rate limits (429, or 403 with
 * their headers) and a wrong token (401) are retried. Permanent failures: every other 403, 404, 410 and 422.
 * https://docs.github.com/en/rest/issues/comments
 * https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api
 */

import { because } from "../core/failures.ts";
import { preview } from "../core/json.ts";
import { count, oneOf, optionsOf } from "../core/options/option-schemas.ts";
import { digest } from "../core/text.ts";
import {
  type Adapter,
  type Delivery,
  RefusedError,
  UndeliverableError,
} from "../kernel/outbox/index.ts";
import {
  type AdapterContext,
  type AttemptContext,
  checked,
  POLICY,
  problemOfSecret,
  SECRET_NAME,
  type WithPolicy,
} from "../kernel/outbox/internal.ts";
import { type MessageRules, messageOf, problemOfMessage, reportCut } from "./message.ts";
import {
  failureIn,
  millisecondsOf,
  type ProviderApis,
  type ProviderRequest,
  type ProviderResponse,
  request,
  tokenOf,
} from "./provider.ts";

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
/** "Otherwise, wait for at least one minute before retrying." */
const SECONDARY_LIMIT_MS = 60_000;

export const githubComments = {
  schema: optionsOf<GithubCommentDestination>()({
    kind: oneOf(["github-comment"]),
    token: SECRET_NAME,
    repository: checked<string>((name) =>
      typeof name === "string" && REPOSITORY.test(name)
        ? undefined
        : { given: preview(name), expected: 'expected "owner/name"' },
    ),
    issue: count({ max: 2_147_483_647 }),
    policy: POLICY.optional(),
  }),
  connect(
    context: Pick<AdapterContext, "env" | "reportProblem" | "now">,
    apis: ProviderApis,
  ): Adapter<GithubCommentDestination> {
    const { env, now } = context;
    return {
      maxBytes: Number.POSITIVE_INFINITY,
      timeoutMs: 60_000,
      keyOf: ({ token, repository }) =>
        `github-comment ${JSON.stringify([token, repository.toLowerCase()])}`,
      labelOf: ({ repository, issue }) => `${repository}#${issue}`,
      problemOf: ({ token }) => problemOfSecret(env, "token", token),
      problemOfEvent: (event) => problemOfMessage(event, RULES),
      async deliver(to, delivery: Delivery, signal, attempt: AttemptContext) {
        const message = messageOf(delivery, RULES);
        const marker = `<!-- perdure:${digest(delivery.id)} -->`;
        const token = await tokenOf(env, to.token, signal);
        const call: Omit<ProviderRequest, "method"> = {
          provider: "GitHub",
          url: `${apis.github ?? API}/repos/${to.repository}/issues/${to.issue}/comments`,
          headers: {
            authorization: `Bearer ${token}`,
            accept: "application/vnd.github+json",
            "user-agent": "Perdure",
            "x-github-api-version": "2022-11-28",
          },
          signal,
          secrets: [token],
          now,
        };
        if (attempt.isRepeated && (await isPosted(call, marker, attempt.createdAt, now))) return;
        // A crash after it makes the next attempt search.
        await attempt.markSending();
        const body = { body: `${message.text}\n\n${marker}` };
        const response = await request({ ...call, method: "POST", body });
        if (response.status !== 201) throw failureOf(response, now());
        reportCut(context, delivery, message, RULES);
      },
    };
  },
};

/**
 * Whether a comment since a time ends with the marker.
 *
 * @throws UndeliverableError where there are too many comments to search
 */
async function isPosted(
  call: Omit<ProviderRequest, "method">,
  marker: string,
  since: number,
  now: () => number,
): Promise<boolean> {
  const from = new Date(Math.max(0, since - SKEW_MS)).toISOString();
  for (let page = 1; page <= MAX_PAGES; page++) {
    const url = `${call.url}?since=${from}&per_page=${PAGE}&page=${page}`;
    const response = await request({ ...call, url, method: "GET", maxBytes: MAX_PAGE_BYTES });
    if (response.status !== 200) throw failureOf(response, now());
    if (!Array.isArray(response.json)) {
      const error = new Error(`${response.says}, which is no list of comments`);
      throw because(error, "answered", response.status);
    }
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

function failureOf(response: ProviderResponse, now: number): Error {
  return because(errorOf(response, now), "answered", response.status);
}

function errorOf(response: ProviderResponse, now: number): Error {
  const { status, headers, says } = response;
  if (status !== 403 && status !== 429) return failureIn(response);
  const isUsedUp = headers.get("x-ratelimit-remaining") === "0";
  const resetAt = millisecondsOf(headers.get("x-ratelimit-reset") ?? undefined);
  const untilReset = isUsedUp && resetAt !== undefined ? Math.max(resetAt - now, 1_000) : undefined;
  const isLimited = status === 429 || isUsedUp || /rate limit/i.test(says);
  const waitMs = response.waitMs ?? untilReset ?? (isLimited ? SECONDARY_LIMIT_MS : undefined);
  return waitMs === undefined
    ? new UndeliverableError(says)
    : new RefusedError(says, { retryAfterMs: waitMs });
}
