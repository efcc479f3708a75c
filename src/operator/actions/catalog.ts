/**
 * Every action of operators: its name, its fields, and what it does. The type `Action`, the check of the API, the commands of
 * `npx perdure` and the tools for assistants are made of it. Its effect is in this folder. No imports of values: clients load it.
 */

/**
 * What a field holds: an id, a URL, a time in epoch milliseconds, any JSON, or a step of a workflow. The last two may be left out.
 * An action with a time `from` has a time `to` after it.
 */
type Kind = "id" | "url" | "time" | "json" | "step";

export type Definition = {
  /** On the page's button. */
  readonly label: string;
  /** One or two sentences. */
  readonly does: string;
  /** The fields that name its target. */
  readonly fields: Readonly<Record<string, Kind>>;
  /** It also works on all that a filter of this list selects. */
  readonly filter?: "submissions" | "dead-letters" | "inbound";
  /** Set for an action that cannot be undone: the command line asks first. */
  readonly loss?: string;
  /** Whether something is lost that no other action brings back: the page's button is red, and assistants get a hint. */
  readonly isDestructive?: true;
  /** Whether the same once more changes nothing: a hint for assistants. */
  readonly isIdempotent?: true;
  /** Assistants have no tool for it. One that is an agent could approve what it has asked for itself. */
  readonly isForPeople?: true;
};

const submission = { fields: { submissionId: "id" }, filter: "submissions" } as const;
const deadLetter = { fields: { deliveryId: "id" }, filter: "dead-letters" } as const;
const endpoint = { fields: { url: "url" }, isIdempotent: true } as const;
const approval = { isForPeople: true } as const;
const task = { fields: { taskId: "id" } } as const;
const workflow = { fields: { workflowId: "id" } } as const;

export const ACTIONS = {
  cancel: {
    label: "Cancel",
    ...submission,
    does: "Cancels submissions that have not ended.",
    isDestructive: true,
    isIdempotent: true,
  },
  retry: {
    label: "Retry",
    ...submission,
    does: "Submits ended submissions again. Each is submitted again once.",
  },
  redrive: {
    label: "Redrive",
    ...deadLetter,
    does: "Sends dead letters again. Those that may have been delivered only with isUncertain: true.",
  },
  "delete-dead-letter": {
    label: "Delete",
    ...deadLetter,
    does: "Deletes dead letters.",
    isDestructive: true,
    isForPeople: true,
  },
  "enable-endpoint": { label: "Enable", ...endpoint, does: "Sends to a disabled URL again." },
  "disable-endpoint": {
    label: "Disable",
    ...endpoint,
    does: "Sends nothing more to a URL until it is enabled again.",
  },
  /** Without a `verdict` in the filter: those whose handler has not ended. */
  replay: {
    label: "Replay",
    fields: { source: "id", id: "id" },
    filter: "inbound",
    does: "Offers inbound deliveries to their handlers again.",
  },
  approve: {
    label: "Approve",
    ...approval,
    fields: { approvalId: "id", payload: "json" },
    does: "Approves what a workflow waits for.",
  },
  reject: {
    label: "Reject",
    ...approval,
    fields: { approvalId: "id" },
    does: "Rejects what a workflow waits for.",
    isDestructive: true,
  },
  "pause-task": {
    label: "Pause",
    ...task,
    does: "Stops a scheduled task until it is resumed.",
    isIdempotent: true,
  },
  "resume-task": {
    label: "Resume",
    ...task,
    does: "Lets a paused task run again.",
    isIdempotent: true,
  },
  "trigger-task": { label: "Run now", ...task, does: "Runs a scheduled task now." },
  "skip-next": { label: "Skip next", ...task, does: "Skips the next run of a scheduled task." },
  backfill: {
    label: "Backfill",
    fields: { taskId: "id", from: "time", to: "time" },
    does: "Runs the occurrences of a past period, except those that have run.",
    isIdempotent: true,
  },
  "pause-workflow": { label: "Pause", ...workflow, does: "Pauses a workflow.", isIdempotent: true },
  "resume-workflow": {
    label: "Resume",
    ...workflow,
    does: "Resumes a paused workflow.",
    isIdempotent: true,
  },
  "terminate-workflow": {
    label: "Terminate",
    ...workflow,
    does: "Ends a workflow, and cancels what it waits for.",
    loss: "it cannot continue",
    isDestructive: true,
    isIdempotent: true,
  },
  "restart-workflow": {
    label: "Restart",
    fields: { workflowId: "id", step: "step" },
    does: "Starts a workflow again, from its beginning or from a step: later steps run again.",
    loss: "its steps run again",
    isDestructive: true,
  },
  "clear-thread": {
    label: "Clear",
    fields: { thread: "id" },
    does: "Deletes the messages of a thread, and ends what is open in it.",
    loss: "its messages are deleted",
    isDestructive: true,
    isForPeople: true,
  },
} as const satisfies Readonly<Record<string, Definition>>;

export type Actions = typeof ACTIONS;
export type ActionName = keyof Actions;

export function definitionOf(name: ActionName): Definition {
  return ACTIONS[name];
}

/** For a loop over all of them. */
export const DEFINITIONS = Object.entries<Definition>(ACTIONS) as readonly (readonly [
  name: ActionName,
  definition: Definition,
])[];
