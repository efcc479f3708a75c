/** What the triage needs of GitHub's payloads, small enough for the params of a workflow. */

import { z } from "zod";

/** The params of a workflow have at most 1 MiB; the text of a GitHub issue has at most 64 KiB. */
const MAX_TEXT_CHARS = 65_536;

const text = z
  .string()
  .nullish()
  .transform((value) => (value ?? "").slice(0, MAX_TEXT_CHARS));

const subject = z.object({
  number: z.int().positive(),
  title: text,
  body: text,
  user: z.object({ login: z.string() }).nullish(),
  labels: z.array(z.object({ name: z.string() })).nullish(),
});

export const githubEvent = z
  .object({
    action: z.string().max(100),
    repository: z.object({ full_name: z.string().min(3).max(200) }),
    issue: subject.optional(),
    pull_request: subject.optional(),
    comment: z.object({ body: text }).optional(),
  })
  .transform(({ action, repository, issue, pull_request, comment }, context) => {
    const about = issue ?? pull_request;
    if (!about) {
      context.addIssue("Expected an issue or a pull_request");
      return z.NEVER;
    }
    return {
      action,
      repository: repository.full_name,
      number: about.number,
      title: about.title,
      author: about.user?.login ?? "unknown",
      labels: (about.labels ?? []).map((label) => label.name),
      body: about.body,
      comment: comment?.body ?? "",
    };
  });

export type GithubEvent = z.output<typeof githubEvent>;
