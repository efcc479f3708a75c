/** GitLab: https://docs.gitlab.com/user/project/integrations/webhooks/ */

import { type Endpoint, type EndpointOptions, endpoint, type MaybeAgent } from "../preset.ts";
import { checkToken } from "../verify.ts";

/** What most of GitLab's deliveries have. Pass a `schema` for more. */
export type GitLabBody = {
  /** E.g. `push`, `issue`, `merge_request` or `note`. */
  readonly object_kind: string;
  readonly project?: {
    readonly id: number;
    readonly path_with_namespace: string;
    readonly web_url: string;
  };
  readonly user?: { readonly id: number; readonly username: string; readonly name: string };
  readonly object_attributes?: {
    readonly id: number;
    readonly iid?: number;
    readonly action?: string;
    readonly title?: string;
    readonly description?: string | null;
    readonly url?: string;
  };
};

/**
 * Receives webhooks of GitLab with a secret token. The type is that of the header `X-Gitlab-Event`, e.g. `Push Hook`.
 *
 * The id is that of the header `Idempotency-Key`, which GitLab sends since 17.4, the same in each retry. Without it, the
 * id is the hash of the body, and two events of equal bodies are taken for one: a tag that is deleted and made again.
 * `X-Gitlab-Event-UUID` is no id, because events that cause each other share it. GitLab signs neither the header nor the
 * body: both are as trustworthy as the token and the connection. For a webhook with a signing token, use
 * `standardWebhooks()`.
 */
export function gitlab<Target extends MaybeAgent, Body = GitLabBody>(
  options: EndpointOptions<Body, Target>,
): Endpoint {
  return endpoint(
    {
      name: "gitlab",
      // GitLab waits for 10 seconds.
      timeLimit: 9_000,
      verify: ({ headers, secrets }) => checkToken(headers.get("x-gitlab-token"), secrets),
      identify: (body, { headers, hash }) => ({
        id: headers.get("idempotency-key") || hash,
        type: headers.get("x-gitlab-event") ?? (body as Partial<GitLabBody>).object_kind ?? "",
      }),
    },
    options,
  );
}
