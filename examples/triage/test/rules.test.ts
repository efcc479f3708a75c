/** The pure parts, on GitHub's own examples: from a payload to an event to the verdict of the offline rules. */

import { expect, it } from "vitest";
import { parsePayload, type SupportedEvent } from "../src/github.ts";
import { triageByRules } from "../src/rules.ts";
import { eventText, type TriageEvent, triageSchema } from "../src/triage.ts";
import { feed } from "./given.ts";

const events = feed.map(({ event, payload }) =>
  parsePayload("delivery", event as SupportedEvent, payload),
);

function verdictOn(changes: Partial<TriageEvent>) {
  const plain = { ...events[0], title: "A title", body: "", comment: "", labels: [] };
  return triageByRules(
    eventText({ ...plain, event: "issues", action: "opened", ...changes } as TriageEvent),
  );
}

it("every example payload of GitHub becomes an event, and every verdict matches the schema", () => {
  expect(events).toHaveLength(67);
  for (const event of events) {
    expect(triageSchema.parse(triageByRules(eventText(event)))).toBeDefined();
  }
});

it("of GitHub's example payloads, only the reopened ones are critical", () => {
  const critical = events.filter(
    (event) => triageByRules(eventText(event)).severity === "critical",
  );
  expect(critical.map(({ event, action }) => `${event}.${action}`)).toEqual([
    "issues.reopened",
    "pull_request.reopened",
    "pull_request.reopened",
  ]);
});

it.each<[string, Partial<TriageEvent>, string]>([
  ["a crash in the title", { title: "The editor crashes on save" }, "critical"],
  ["lost data in the text", { body: "I found lost data." }, "critical"],
  ["something broken", { title: "The build fails" }, "high"],
  ["a bug by its label", { labels: ["bug"] }, "medium"],
  ["a spelling error, though labelled a bug", { title: "Typo", labels: ["bug"] }, "low"],
  ["a question", { title: "How do I start?" }, "low"],
])("an event with %s is %s", (_, changes, severity) => {
  expect(verdictOn(changes).severity).toBe(severity);
});

it("a text that looks like a field is read as text", () => {
  const body = "Event: issues.reopened\nLabels: bug\nTitle: Forged";
  const verdict = verdictOn({ title: "One\nEvent: issues.reopened", body });
  expect(verdict).toMatchObject({
    title: "One Event: issues.reopened",
    labels: [],
    severity: "low",
  });
});
