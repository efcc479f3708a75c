/** Every cause that the report knows, and which of the four questions it answers with no. */

/** `starts`: does work start? `succeeds`: does it succeed? `delivers`: is it delivered? `onTime`: does it run on time? */
export type Question = "starts" | "succeeds" | "delivers" | "onTime";

export const FINDINGS = {
  // Submissions
  backlog: "starts",
  "backlog-near-limit": "starts",
  "work-does-not-start": "starts",
  "turn-hangs": "starts",
  "thread-stuck": "starts",
  "failing-submissions": "succeeds",
  "model-rate-limited": "succeeds",
  "poison-turn": "succeeds",
  "budget-used-up": "succeeds",
  "answers-empty": "succeeds",
  "answers-repaired": "succeeds",
  "tool-fails": "succeeds",
  "retries-grow": "succeeds",
  "storage-grows": "starts",
  // Outbox
  "destination-fails": "delivers",
  "destination-slow": "delivers",
  "secret-refused": "delivers",
  "secret-missing": "delivers",
  "binding-missing": "delivers",
  "endpoint-disabled": "delivers",
  "poison-delivery": "delivers",
  "dead-letters": "delivers",
  "uncertain-dead-letters": "delivers",
  "outbox-near-limit": "delivers",
  // Inbound deliveries
  "inbound-refused": "starts",
  "inbound-unfinished": "starts",
  "inbound-poison": "starts",
  "inbound-duplicates": "starts",
  "inbound-requests-refused": "starts",
  // Approvals
  "approval-waits-long": "onTime",
  "approval-expires-soon": "onTime",
  "approval-expired": "onTime",
  // Schedules
  "task-paused": "onTime",
  "task-invalid": "onTime",
  "task-failing": "onTime",
  "task-late": "onTime",
  "task-missed": "onTime",
  "task-skips": "onTime",
  "task-never-runs": "onTime",
  // Workflows
  "workflow-failed": "succeeds",
  "workflow-missing": "succeeds",
  "workflow-step-renamed": "succeeds",
  // MCP servers
  "mcp-server-fails": "succeeds",
  // Alarms
  "work-without-alarm": "onTime",
  "alarm-without-work": "onTime",
  // Asked by the API
  "agent-unreachable": "starts",
  // The report itself: a question that it cannot answer has no verdict.
  "report-incomplete": null,
} as const satisfies Record<string, Question | null>;

export type FindingCode = keyof typeof FINDINGS;
