/** The views as data: what each list shows, filters and does. */

import type { ActionName } from "../../catalog.ts";
import type { Action, Collections, Details } from "../../protocol.ts";
import { html } from "./html.ts";
import { Status, short, Time } from "./parts.ts";
import type { FilterName } from "./text/filter.ts";
import { durationText } from "./text/times.ts";

/** A button. It opens the dialog, which asks for a reason. */
export type ActionButton = {
  readonly label: string;
  readonly action: Action;
  /** How many items a finding has counted. */
  readonly expects?: number;
};

type BulkButton = {
  readonly do: ActionName;
  /** The statuses that it acts on: a filter by others has no such button. */
  readonly statuses?: readonly string[];
};

export type View<Name extends keyof Collections = keyof Collections> = {
  readonly title: string;
  /** In place of the rows when there are none: what would be here, and how it gets here. */
  readonly empty: string;
  readonly collection: Name;
  readonly id: (item: Collections[Name]) => string;
  readonly columns: Readonly<Record<string, (item: Collections[Name]) => unknown>>;
  /** The column whose text opens the item. */
  readonly link: string;
  readonly filters: readonly FilterName[];
  readonly actions: (item: Collections[Name]) => readonly Action[];
  /** For all that the filter selects. */
  readonly bulk?: readonly BulkButton[];
  /** Whether an item can be opened by the API. */
  readonly opens?: keyof Details;
};

const view = <Name extends keyof Collections>(each: View<Name>) => each as unknown as View;
const SINCE: FilterName = { name: "since", parameter: "since", isTime: true };
const UNTIL: FilterName = { name: "until", parameter: "until", isTime: true };

const submissions = view<"submissions">({
  title: "Submissions",
  empty: "No submission yet. Each turn that the agent accepts appears here, newest first.",
  collection: "submissions",
  link: "Submission",
  opens: "submissions",
  id: ({ submissionId }) => submissionId,
  columns: {
    Status: ({ status }) => html`<${Status} of=${status} />`,
    Submission: ({ submissionId }) => short(submissionId, 40),
    Accepted: ({ createdAt }) => html`<${Time} at=${createdAt} />`,
    Thread: ({ thread }) => short(thread, 24),
    Took: ({ startedAt, completedAt }) =>
      startedAt !== undefined && completedAt !== undefined
        ? durationText(completedAt - startedAt)
        : "",
    Attempts: ({ attempts }) => attempts,
    Result: ({ output, error }) => short(error ?? output ?? ""),
  },
  filters: [
    {
      name: "status",
      parameter: "status",
      values: ["pending", "running", "completed", "error", "aborted", "skipped"],
    },
    { name: "thread", parameter: "thread" },
    { name: "since", parameter: "createdAfter", isTime: true },
    { name: "until", parameter: "createdBefore", isTime: true },
    { name: "metadata.", parameter: "metadata" },
  ],
  actions: ({ submissionId, status }) => {
    if (status === "pending" || status === "running") {
      return [{ do: "cancel", submissionId }];
    }
    return status === "completed" ? [] : [{ do: "retry", submissionId }];
  },
  bulk: [
    { do: "retry", statuses: ["error", "aborted", "skipped"] },
    { do: "cancel", statuses: ["pending", "running"] },
  ],
});

const workflows = view<"workflows">({
  title: "Workflows",
  empty: "No workflow yet. Those that this agent starts with runWorkflow() appear here.",
  collection: "workflows",
  link: "Instance",
  opens: "workflows",
  id: ({ workflowId }) => workflowId,
  columns: {
    Status: ({ status }) => html`<${Status} of=${status} />`,
    Instance: ({ workflowId }) => short(workflowId, 40),
    Workflow: ({ workflow }) => short(workflow, 30),
    Started: ({ createdAt }) => html`<${Time} at=${createdAt} />`,
    Changed: ({ updatedAt }) => html`<${Time} at=${updatedAt} />`,
    Error: ({ error }) => short(error?.message ?? ""),
  },
  filters: [
    {
      name: "status",
      parameter: "status",
      values: ["queued", "running", "paused", "waiting", "complete", "errored", "terminated"],
    },
    { name: "workflow", parameter: "workflow" },
  ],
  actions: ({ workflowId, status }) => {
    const restart: Action = { do: "restart-workflow", workflowId };
    if (/^(complete|errored|terminated)$/.test(status)) return [restart];
    const held: Action =
      status === "paused"
        ? { do: "resume-workflow", workflowId }
        : { do: "pause-workflow", workflowId };
    return [held, restart, { do: "terminate-workflow", workflowId }];
  },
});

const approvals = view<"approvals">({
  title: "Approvals",
  empty: "No approval yet. What step.approval() of a workflow asks for appears here.",
  collection: "approvals",
  link: "Title",
  opens: "approvals",
  id: ({ approvalId }) => approvalId,
  columns: {
    Status: ({ status }) => html`<${Status} of=${status} />`,
    Title: ({ title, approvalId }) => short(title ?? approvalId, 60),
    Workflow: ({ workflow }) => short(workflow.id, 30),
    Asked: ({ createdAt }) => html`<${Time} at=${createdAt} />`,
    Expires: ({ expiresAt }) => html`<${Time} at=${expiresAt} />`,
    By: ({ by }) => short(by ?? "", 30),
  },
  filters: [
    {
      name: "status",
      parameter: "status",
      values: ["pending", "approved", "rejected", "expired", "refused", "cancelled"],
    },
    { name: "workflow", parameter: "workflowId" },
  ],
  actions: ({ approvalId, status, schema }) =>
    status === "pending"
      ? [
          // The dialog asks for the payload.
          { do: "approve", approvalId, ...(schema !== null && { payload: null }) },
          { do: "reject", approvalId },
        ]
      : [],
});

const inbound = view<"inbound">({
  title: "Arrivals",
  empty: "Nothing has arrived yet. Webhooks, e-mails and messages appear here.",
  collection: "inbound",
  link: "Arrival",
  opens: "inbound",
  id: ({ source, id }) => `${source}/${id}`,
  columns: {
    Verdict: ({ verdict, error }) =>
      html`<${Status} of=${error && verdict === "accepted" ? "failing" : verdict} />`,
    Arrival: ({ id }) => short(id, 40),
    Source: ({ source }) => short(source, 20),
    Type: ({ type }) => short(type ?? "", 30),
    Stored: ({ storedAt }) => html`<${Time} at=${storedAt} />`,
    Started: ({ calls }) => calls.length,
    Error: ({ error }) => short(error?.message ?? ""),
  },
  filters: [
    { name: "source", parameter: "source" },
    { name: "verdict", parameter: "verdict", values: ["accepted", "filtered", "refused"] },
    { name: "type", parameter: "type" },
    SINCE,
    UNTIL,
  ],
  actions: ({ source, id }) => [{ do: "replay", source, id }],
  bulk: [{ do: "replay" }],
});

const deliveries = view<"deliveries">({
  title: "Outbox",
  empty: "No delivery yet. Events that the agent puts into its outbox appear here.",
  collection: "deliveries",
  link: "Delivery",
  opens: "deliveries",
  id: ({ id }) => id,
  columns: {
    State: ({ state }) => html`<${Status} of=${state} />`,
    To: ({ destination }) => destinationText(destination),
    Delivery: ({ id }) => short(id, 40),
    Attempt: ({ attempt }) => attempt,
    Put: ({ createdAt }) => html`<${Time} at=${createdAt} />`,
    Error: (item) => short("lastError" in item ? (item.lastError ?? "") : ""),
  },
  filters: [
    { name: "state", parameter: "state", values: ["waiting", "delivered", "discarded", "dead"] },
    {
      name: "kind",
      parameter: "kind",
      values: ["webhook", "queue", "method", "agent", "workflow-event", "workflow-start"],
    },
    { name: "submission", parameter: "submissionId" },
  ],
  actions: ({ id, state }) => (state === "dead" ? deadActions(id) : []),
});

const deadActions = (deliveryId: string): Action[] => [
  { do: "redrive", deliveryId },
  { do: "delete-dead-letter", deliveryId },
];

const deadLetters = view<"dead-letters">({
  title: "Dead letters",
  empty: "No dead letters. Deliveries that were given up appear here.",
  collection: "dead-letters",
  link: "Delivery",
  opens: "dead-letters",
  id: ({ id }) => id,
  columns: {
    To: ({ destination }) => destinationText(destination),
    Delivery: ({ id }) => short(id, 40),
    Attempts: ({ attempts }) => attempts,
    Died: ({ diedAt }) => html`<${Time} at=${diedAt} />`,
    "May have arrived": ({ isUncertain }) => (isUncertain ? "yes" : "no"),
    Error: ({ lastError }) => short(lastError),
  },
  filters: [SINCE, { name: "uncertain", parameter: "isUncertain", values: ["true", "false"] }],
  actions: ({ id }) => deadActions(id),
  bulk: [{ do: "redrive" }, { do: "delete-dead-letter" }],
});

const endpoints = view<"endpoints">({
  title: "Endpoints",
  empty: "All endpoints are healthy. URLs that fail, or are disabled, appear here.",
  collection: "endpoints",
  link: "URL",
  opens: "endpoints",
  id: ({ url }) => url,
  columns: {
    State: ({ state }) => html`<${Status} of=${state} />`,
    URL: ({ url }) => short(url, 60),
    Since: (item) => ("since" in item ? html`<${Time} at=${item.since} />` : ""),
    Reason: (item) => short("reason" in item ? item.reason : ""),
  },
  filters: [],
  actions: ({ url, state }) => [
    ...(state === "disabled" ? [] : [{ do: "disable-endpoint" as const, url }]),
    { do: "enable-endpoint", url },
  ],
});

const tasks = view<"tasks">({
  title: "Schedules",
  empty: "No schedule yet. Declare recurring work in getScheduledTasks().",
  collection: "tasks",
  link: "Task",
  opens: "tasks",
  id: ({ taskId }) => taskId,
  columns: {
    State: ({ state }) => html`<${Status} of=${state} />`,
    Task: ({ taskId }) => short(taskId, 40),
    Schedule: ({ schedule }) => short(schedule, 60),
    Zone: ({ timezone }) => timezone ?? "",
    Next: ({ next }) => html`<${Time} at=${next} />`,
    "Last run": ({ lastRun }) => (lastRun ? html`<${Status} of=${lastRun.status} />` : ""),
    Failed: ({ counts }) => counts.failed,
    Skipped: ({ counts }) => counts.skipped,
    Missed: ({ counts }) => counts.missed,
  },
  filters: [],
  actions: ({ taskId, state }) => [
    state === "paused" ? { do: "resume-task", taskId } : { do: "pause-task", taskId },
    { do: "trigger-task", taskId },
    { do: "skip-next", taskId },
    { do: "backfill", taskId, from: 0, to: 0 },
  ],
});

const threads = view<"threads">({
  title: "Threads",
  empty: "No thread yet. Conversations that submissions use appear here.",
  collection: "threads",
  link: "Thread",
  id: ({ thread }) => thread,
  columns: {
    Thread: ({ thread }) => short(thread, 60),
    Open: ({ open }) => open,
    All: ({ total }) => total,
    Latest: ({ lastAt }) => html`<${Time} at=${lastAt} />`,
  },
  filters: [],
  actions: ({ thread }) =>
    thread === "main" || thread === "isolated" ? [] : [{ do: "clear-thread", thread }],
});

const actions = view<"actions">({
  title: "Audit log",
  empty: "No action yet. What operators do is recorded here.",
  collection: "actions",
  link: "Action",
  id: ({ auditId }) => auditId,
  columns: {
    Outcome: ({ outcome }) => html`<${Status} of=${outcome} />`,
    When: ({ at }) => html`<${Time} at=${at} />`,
    Who: ({ by }) => short(by, 30),
    Action: ({ action }) => short(action.do, 30),
    Target: ({ action: { do: _, ...target } }) => short(target, 60),
    Reason: ({ reason }) => short(reason, 60),
    Count: ({ count }) => count,
  },
  filters: [],
  actions: () => [],
});

/** In the order of the navigation. The key is the view in the URL, and `g` with its letter opens it. */
export const VIEWS: Readonly<Record<string, View>> = {
  submissions,
  workflows,
  approvals,
  inbound,
  deliveries,
  "dead-letters": deadLetters,
  endpoints,
  tasks,
  threads,
  actions,
};
// The URL names a view, and may say "constructor".
Object.setPrototypeOf(VIEWS, null);

function destinationText(destination: { readonly kind: string }): string {
  const { kind, ...rest } = destination as Readonly<Record<string, unknown>> & { kind: string };
  const target =
    rest.url ?? rest.queue ?? rest.method ?? rest.agent ?? rest.workflow ?? rest.channel ?? "";
  return short(`${kind} ${typeof target === "string" ? target : ""}`, 60);
}
