/** GitLab: https://docs.gitlab.com/user/project/integrations/webhooks/ */

import { webhookKey } from "../../../../core/secrets.ts";
import { endpoint, type PresetOf } from "../preset.ts";
import { checkStandard, signedHeaders } from "../standard.ts";
import { checkToken } from "../verify.ts";

/** The fields that most of GitLab's deliveries have. Pass a `schema` for more. */
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
 * Receives webhooks of GitLab with a secret token or a signing token; `secret` names either, or both. The type is that of the header `X-Gitlab-Event`, e.g. `Push Hook`.
 *
 * The id is that of the header `Webhook-Id` or `Idempotency-Key`, which GitLab sends since 17.4, the same in each retry.
 * Without them, the id is the hash of the body, and two events of equal bodies are taken for one: a tag that is deleted and
 * made again. `X-Gitlab-Event-UUID` is no id, because events that cause each other share it.
 *
 * With a signing token, GitLab signs the body, `Webhook-Id` and the time, by Standard Webhooks. It does not sign
 * `X-Gitlab-Event`, and with a secret token nothing: those are as trustworthy as the token and the connection.
 */
export const gitlab: PresetOf<GitLabBody> = (options) =>
  endpoint(
    {
      name: "gitlab",
      // GitLab waits for 10 seconds.
      timeLimit: 9_000,
      tolerance: 300_000,
      async verify(incoming) {
        const { headers, secrets } = incoming;
        const verified = await checkToken(headers.get("x-gitlab-token"), secrets);
        const signed = signedHeaders(headers, "webhook");
        if (verified === true || !signed.every(Boolean)) return verified;
        // A secret token need not be base64.
        const keys = secrets.map(webhookKey).filter((key) => key !== undefined);
        return checkStandard(signed, incoming, keys);
      },
      identify: (body, { headers, hash }) => ({
        id: headers.get("webhook-id") || headers.get("idempotency-key") || hash,
        type: headers.get("x-gitlab-event") ?? (body as Partial<GitLabBody>).object_kind ?? "",
      }),
    },
    options,
  );
