/**
 * Converts a GitHub webhook to a TriageEvent: the supported events, and the required fields of their payloads. Pure. Every
 * field is checked before it is used.
 */

import { z } from "zod";
import { HttpError } from "./http.ts";
import type { TriageEvent } from "./triage.ts";

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

const payload = z.object({
  action: z.string().max(100),
  repository: z.object({ full_name: z.string().min(3).max(200) }),
});

/** The supported events, with the required fields of their payloads, and the paths of the subject and the comment. */
const PAYLOADS = {
  issues: payload
    .extend({ issue: subject })
    .transform((sent) => ({ ...sent, about: sent.issue, comment: "" })),
  issue_comment: payload
    .extend({ issue: subject, comment: z.object({ body: text }) })
    .transform((sent) => ({ ...sent, about: sent.issue, comment: sent.comment.body })),
  pull_request: payload
    .extend({ pull_request: subject })
    .transform((sent) => ({ ...sent, about: sent.pull_request, comment: "" })),
};

export type SupportedEvent = keyof typeof PAYLOADS;

/** The characters and length of a delivery id are limited, because it is part of a workflow's instance id. */
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

export function assertSupported(event: string): asserts event is SupportedEvent {
  if (Object.hasOwn(PAYLOADS, event)) return;
  const name = JSON.stringify(event.slice(0, 60));
  throw new HttpError(
    422,
    `The event ${name} is not handled here. Handled are: ${Object.keys(PAYLOADS).join(", ")}.`,
  );
}

export function parsePayload(
  delivery: string,
  event: SupportedEvent,
  payload: unknown,
): TriageEvent {
  const { success, data, error } = PAYLOADS[event].safeParse(payload);
  if (!success) {
    const issue = error.issues[0];
    const where = issue && issue.path.length > 0 ? ` at ${issue.path.join(".")}` : "";
    throw new HttpError(
      422,
      `The payload is not one of a GitHub ${event} event: ${issue?.message ?? "invalid"}${where}.`,
    );
  }
  const { about } = data;
  return {
    delivery,
    event,
    action: data.action,
    repository: data.repository.full_name,
    number: about.number,
    title: about.title,
    author: about.user?.login ?? "unknown",
    labels: (about.labels ?? []).map((label) => label.name),
    body: about.body,
    comment: data.comment,
  };
}
