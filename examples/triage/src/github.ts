/**
 * From a GitHub webhook to a TriageEvent: which events are handled, and which fields of their payloads are needed.
 * Pure. Payloads come from outside, so nothing of them is used before it is checked.
 */

import { z } from "zod";
import { HttpError } from "./http.ts";
import type { TriageEvent } from "./triage.ts";

const SUPPORTED_EVENTS = ["issues", "issue_comment", "pull_request"] as const;

/** A workflow's parameters may take 1 MiB; an issue's text may take 64 KiB at GitHub. */
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

const payloadSchema = z
  .object({
    action: z.string().max(100),
    repository: z.object({ full_name: z.string().min(3).max(200) }),
    issue: subject.optional(),
    pull_request: subject.optional(),
    comment: z.object({ body: text }).optional(),
  })
  .refine(
    (payload) => payload.issue ?? payload.pull_request,
    "Expected an issue or a pull_request",
  );

/** A delivery id becomes part of a workflow's instance id, hence the alphabet and the length. */
const DELIVERY_ID = /^[A-Za-z0-9_-]{1,80}$/;

export function readHeaders(headers: Headers): { event: string; delivery: string } {
  const event = headers.get("X-GitHub-Event");
  const delivery = headers.get("X-GitHub-Delivery");
  if (!event) throw new HttpError(400, "The header X-GitHub-Event is missing.");
  if (!delivery) throw new HttpError(400, "The header X-GitHub-Delivery is missing.");
  if (!DELIVERY_ID.test(delivery)) {
    throw new HttpError(
      400,
      "The header X-GitHub-Delivery must be 1 to 80 characters of A-Z, a-z, 0-9, _ and -.",
    );
  }
  return { event, delivery };
}

export function assertSupported(event: string): void {
  if ((SUPPORTED_EVENTS as readonly string[]).includes(event)) return;
  const name = JSON.stringify(event.slice(0, 60));
  throw new HttpError(
    422,
    `The event ${name} is not handled here. Handled are: ${SUPPORTED_EVENTS.join(", ")}.`,
  );
}

export function parsePayload(delivery: string, event: string, payload: unknown): TriageEvent {
  const parsed = payloadSchema.safeParse(payload);
  if (!parsed.success) {
    const issue = parsed.error.issues[0];
    const where = issue && issue.path.length > 0 ? ` at ${issue.path.join(".")}` : "";
    throw new HttpError(
      422,
      `The payload is not one of a GitHub ${event} event: ${issue?.message ?? "invalid"}${where}.`,
    );
  }
  const { action, repository, comment } = parsed.data;
  const about = parsed.data.issue ?? parsed.data.pull_request;
  if (!about)
    throw new HttpError(
      422,
      `The payload of the ${event} event has neither an issue nor a pull_request.`,
    );
  return {
    delivery,
    event,
    action,
    repository: repository.full_name,
    number: about.number,
    title: about.title,
    author: about.user?.login ?? "unknown",
    labels: (about.labels ?? []).map((label) => label.name),
    body: about.body,
    comment: comment?.body ?? "",
  };
}
