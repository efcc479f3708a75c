/**
 * Triage by fixed rules, for demonstrations without a network: keywords and GitHub's own labels. It reads the text of
 * eventText(), and does not replace a model.
 */

import { fieldOf, oneLine, type Triage } from "./triage.ts";

const CRITICAL =
  /\b(crash(es|ed|ing)?|security|vulnerab\w*|data loss|lost data|corrupt\w*|outage|leak(s|ed)?)\b/;
const BROKEN = /\b(broken|breaks|fail(s|ed|ing|ure)?|exception|regression|no longer works)\b/;
const SPELLING = /\b(spelling|spelled|misspel\w*|typos?)\b/;
const DOCUMENTATION = /\b(readme|docs?|documentation)\b/;
const DEPENDENCIES = /\b(package\.json|dependenc(y|ies)|upgrade|bump)\b/;
const NEEDS_REVIEW = ["opened", "ready_for_review", "review_requested", "synchronize"];
const SUBJECTS: Readonly<Record<string, string>> = {
  issues: "Issue",
  issue_comment: "A comment on",
  pull_request: "Pull request",
};

type Reading = ReturnType<typeof read>;

export function triageByRules(text: string): Triage {
  const reading = read(text);
  return {
    title: titleOf(reading),
    summary: summaryOf(reading),
    labels: labelsOf(reading),
    severity: severityOf(reading),
  };
}

function read(text: string) {
  const [event = "", action = ""] = fieldOf(text, "Event").split(".");
  const title = fieldOf(text, "Title");
  const comment = fieldOf(text, "Comment");
  const body = text.split("\nText:\n").slice(1).join("\nText:\n");
  const labels = fieldOf(text, "Labels").split(",").map(kebab).filter(Boolean);
  const subject = fieldOf(text, "Subject");
  const author = fieldOf(text, "Author");
  /** All texts of people, in lower case. */
  const words = `${title}\n${comment}\n${body}`.toLowerCase();
  return { event, action, subject, title, author, labels, comment, body, words };
}

/** Reopened work is critical: it was closed and is not done, so a person decides. */
function severityOf({ action, labels, words }: Reading): Triage["severity"] {
  if (CRITICAL.test(words) || action === "reopened") return "critical";
  if (BROKEN.test(words)) return "high";
  if (SPELLING.test(words)) return "low";
  return labels.includes("bug") ? "medium" : "low";
}

function labelsOf({ event, action, labels, words }: Reading): string[] {
  const found: [string, boolean][] = [
    ["urgent", CRITICAL.test(words)],
    ["reopened", action === "reopened"],
    ["documentation", DOCUMENTATION.test(words)],
    ["spelling", SPELLING.test(words)],
    ["dependencies", DEPENDENCIES.test(words)],
    ["needs-review", event === "pull_request" && NEEDS_REVIEW.includes(action)],
    ["discussion", event === "issue_comment"],
  ];
  const matching = found.flatMap(([label, matches]) => (matches ? label : []));
  return [...new Set([...matching, ...labels])].slice(0, 6);
}

function titleOf({ title }: Reading): string {
  const clean = oneLine(title).replace(/[\s.!]+$/, "");
  return (clean.charAt(0).toUpperCase() + clean.slice(1)).slice(0, 120) || "Untitled";
}

function summaryOf(reading: Reading): string {
  const { event, action, subject, author, comment, body } = reading;
  const said = firstSentence(comment) || firstSentence(body) || titleOf(reading);
  const what = `${SUBJECTS[event] ?? "Event on"} ${subject} by ${author}`;
  return `${what} was ${action.replaceAll("_", " ")}: ${said}`.slice(0, 400);
}

function firstSentence(text: string): string {
  const line = oneLine(text);
  return /^.*?[.!?](?=\s|$)/.exec(line)?.[0] ?? line.slice(0, 200);
}

function kebab(label: string): string {
  const words = label.toLowerCase().replace(/[^a-z0-9]+/g, "-");
  return words.replace(/^-|-$/g, "").slice(0, 50);
}
