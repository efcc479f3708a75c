/**
 * The code of Think's documentation about submissions, workflows and scheduled tasks, with the imports and the base class
 * changed as in docs/migration.md. `check-docs.ts` compiles it, because code for Think must compile with Perdure.
 */
import { readFileSync } from "node:fs";
import path from "node:path";

const docs = path.join(import.meta.dirname, "../node_modules/@cloudflare/think/docs");

/** The pages, and the headings of the sections that are about these features; null for all of the page. */
const PAGES: readonly (readonly [page: string, headings: readonly string[] | null])[] = [
  ["workflows.md", null],
  ["programmatic-submissions.md", null],
  ["index.md", ["### `runTurn()`", "### Adding messages without a turn", "## Scheduled Tasks"]],
];

/** Declarations that the blocks use without showing them. A block may declare its own. */
const LEFT_OUT: Readonly<Record<string, string>> = {
  Think: 'import { DurableThink as Think } from "perdure/think";',
  ThinkScheduledTasks: 'import type { ThinkScheduledTasks } from "@cloudflare/think";',
  TriageAgent:
    "declare class TriageAgent extends Think<Env> { applyLabels(labels: string[]): void }",
  Params: "type Params = { issueNumber: number };",
  summarySchema:
    'declare const summarySchema: import("zod").ZodObject<{ text: import("zod").ZodString }>;',
  step: 'declare const step: import("perdure/workflow").ThinkWorkflowStep;',
  file: "declare const file: { path: string };",
  messages: 'declare const messages: import("ai").UIMessage[];',
  submission: "declare const submission: { submissionId: string };",
  event: "declare const event: { payload: { jobId: string } };",
  postVisibleReply:
    "declare function postVisibleReply(threadId: string, submissionId: string): Promise<void>;",
  ...Object.fromEntries(
    [
      ...["issueNumber", "workflowId", "workflowName", "instanceId", "stepName", "idempotencyKey"],
      ...["inboundEventId", "webhookId", "threadId"],
    ].map((name) => [name, `declare const ${name}: string;`]),
  ),
  payload: "declare const payload: { id: string };",
};

/** Methods of the agent that the pages call without showing them. */
const AGENT_MEMBERS =
  "declare getReminderForThisUser: () => Promise<ThinkScheduledTasks[string] | undefined>;";
const WORKFLOW_MEMBERS = 'declare agent: Pick<TriageAgent, "submitMessages">;';

export interface ThinkBlock {
  readonly page: string;
  /** Line of the first line of code, from 1. */
  readonly line: number;
  readonly code: string;
}

/** The blocks, each as a module whose lines are those of the page. */
export function thinkBlocks(): ThinkBlock[] {
  return PAGES.flatMap(([page, headings]) => {
    const text = readFileSync(path.join(docs, page), "utf8");
    return [...text.matchAll(/^```typescript\n(.*?)^```$/gms)].flatMap((match) => {
      const before = text.slice(0, match.index);
      const heading = before.match(/^##+ .*$/gm)?.at(-1);
      if (headings && !headings.includes(heading ?? "")) return [];
      const line = before.split("\n").length + 1;
      return [{ page, line, code: moduleOf(match[1] ?? "") }];
    });
  });
}

/** The block with the changes of a migration, within what it is a part of. What is added comes on its first and last line. */
function moduleOf(block: string): string {
  const migrated = block
    .replace(
      'import { Think } from "@cloudflare/think";',
      'import { DurableThink as Think } from "perdure/think";',
    )
    .replaceAll('"@cloudflare/think/workflows"', '"perdure/workflow"')
    // Without a type the texts of its schedules are strings, which Think does not take, either.
    .replace(/^getScheduledTasks\(\) \{/, "getScheduledTasks(): ThinkScheduledTasks {")
    .replace(/^(export class \w+ extends Think<Env> \{)$/m, `$1 ${AGENT_MEMBERS}`);
  const declares = (name: string) =>
    new RegExp(`\\b(const|class|type) ${name}\\b|import .*\\b${name}\\b`).test(migrated);
  const given = Object.entries(LEFT_OUT).flatMap(([name, line]) => (declares(name) ? [] : [line]));
  return given.join(" ") + wrapped(migrated);
}

function wrapped(code: string): string {
  const [first = ""] = code.split("\n");
  if (/^(import|export) /.test(first)) return code;
  const head = `class Shown extends Think<Env> { ${WORKFLOW_MEMBERS}`;
  // A method of an agent, or what one does.
  if (/^(async )?\w+\(.*\).* \{$/.test(first)) return `${head} ${code}}`;
  return `${head} async shown(agent: this) {${code}}}`;
}
