/**
 * Triage by fixed rules, for demonstrations without a network: keywords and GitHub's own labels. It reads the text of
 * eventText(), and does not replace a model.
 */

import { fieldOf } from "./model-io.ts";
import type { Triage } from "./triage.ts";

interface Reading {
  event: string;
  action: string;
  subject: string;
  title: string;
  author: string;
  labels: string[];
  comment: string;
  body: string;
  /** All texts of people, in lower case. */
  words: string;
}

const CRITICAL =
  /\b(crash(es|ed|ing)?|security|vulnerab\w*|data loss|lost data|corrupt\w*|outage|leak(s|ed)?)\b/;
const BROKEN = /\b(broken|breaks|fail(s|ed|ing|ure)?|exception|regression|no longer works)\b/;
const SPELLING = /\b(spelling|spelled|misspel\w*|typos?)\b/;
const DOCUMENTATION = /\b(readme|docs?|documentation)\b/;
const DEPENDENCIES = /\b(package\.json|dependenc(y|ies)|upgrade|bump)\b/;

export function triageByRules(text: string): Triage {
  const reading = read(text);
  const severity = severityOf(reading);
  return {
    title: cleanTitle(reading.title),
    summary: summaryOf(reading),
    labels: labelsOf(reading),
    severity,
  };
}

function read(text: string): Reading {
  const [event = "", action = ""] = fieldOf(text, "Event").split(".");
  const title = fieldOf(text, "Title");
  const comment = fieldOf(text, "Comment");
  const body = text.split("\nText:\n").slice(1).join("\nText:\n");
  const labels = fieldOf(text, "Labels")
    .split(",")
    .map((label) => label.trim())
    .filter((label) => label !== "");
  const words = `${title}\n${comment}\n${body}`.toLowerCase();
  return {
    event,
    action,
    subject: fieldOf(text, "Subject"),
    title,
    author: fieldOf(text, "Author"),
    labels,
    comment,
    body,
    words,
  };
}

/** Reopened work is critical: it was closed and is not done, so a person decides. */
function severityOf({ action, labels, words }: Reading): Triage["severity"] {
  if (CRITICAL.test(words) || action === "reopened") return "critical";
  if (BROKEN.test(words)) return "high";
  if (SPELLING.test(words)) return "low";
  return labels.includes("bug") ? "medium" : "low";
}

function labelsOf({ event, action, labels, words }: Reading): string[] {
  const found = [
    CRITICAL.test(words) && "urgent",
    action === "reopened" && "reopened",
    DOCUMENTATION.test(words) && "documentation",
    SPELLING.test(words) && "spelling",
    DEPENDENCIES.test(words) && "dependencies",
    event === "pull_request" &&
      ["opened", "ready_for_review", "review_requested", "synchronize"].includes(action) &&
      "needs-review",
    event === "issue_comment" && "discussion",
    ...labels.map(kebab),
  ].filter((label) => typeof label === "string" && label !== "");
  return [...new Set(found as string[])].slice(0, 6);
}

function cleanTitle(title: string): string {
  const clean = title
    .replace(/\s+/g, " ")
    .replace(/[\s.!]+$/, "")
    .trim();
  if (clean === "") return "Untitled";
  return (clean.charAt(0).toUpperCase() + clean.slice(1)).slice(0, 120);
}

function summaryOf({ event, action, subject, author, comment, body, title }: Reading): string {
  const what =
    { issues: "Issue", issue_comment: "A comment on", pull_request: "Pull request" }[event] ??
    "Event on";
  const said = firstSentence(comment) || firstSentence(body) || cleanTitle(title);
  return `${what} ${subject} by ${author} was ${action.replaceAll("_", " ")}: ${said}`.slice(
    0,
    400,
  );
}

function firstSentence(text: string): string {
  return (
    /^.*?[.!?](?=\s|$)/.exec(text.replace(/\s+/g, " ").trim())?.[0] ??
    text.replace(/\s+/g, " ").trim().slice(0, 200)
  );
}

function kebab(label: string): string {
  return label
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-|-$/g, "")
    .slice(0, 50);
}
