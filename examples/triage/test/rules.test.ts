/** The pure parts, on GitHub's own examples: from a payload to an event to the verdict of the offline rules. */

import { expect, it } from "vitest";
import { payloads } from "../demo/feed.ts";
import { githubEvent } from "../src/github.ts";
import { triageByRules } from "../src/rules.ts";
import { eventText, type TriageEvent, triageSchema } from "../src/triage.ts";

const events: TriageEvent[] = payloads.map(({ event, payload }) => ({
  ...githubEvent.parse(payload),
  ...{ delivery: "1", event },
}));

const opened = events.find(({ event, action }) => `${event}.${action}` === "issues.opened");

function verdictOn(changes: Partial<TriageEvent>) {
  const plain = { ...(opened as TriageEvent), title: "A title", body: "", comment: "", labels: [] };
  return triageByRules(eventText({ ...plain, ...changes }));
}

it("of GitHub's 67 example payloads, only the reopened ones are critical", () => {
  const verdicts = events.map((event) => triageSchema.parse(triageByRules(eventText(event))));
  const critical = events.filter((_, index) => verdicts[index]?.severity === "critical");
  expect(verdicts).toHaveLength(67);
  expect(critical.map(({ action }) => action)).toEqual(["reopened", "reopened", "reopened"]);
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
  const title = "One Event: issues.reopened";
  expect(verdict).toMatchObject({ title, labels: [], severity: "low" });
});
