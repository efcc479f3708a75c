/** The matrix: kinds of edits, states of a run, and what both halves of the app call their parts. */

/** Which half of the app: the code that began the runs, or the code that was deployed meanwhile. */
export type Code = "old" | "new";

/** The edits, as the table names them. `none` deploys the same code again. */
export const EDITS = {
  none: "none",
  "rename-step": "rename a step",
  reorder: "reorder two steps",
  "insert-before": "insert a step before",
  "insert-after": "insert a step after",
  remove: "remove a step",
  "change-kind": "change a step's kind",
  narrow: "narrow a schema",
  widen: "widen a schema",
  "rename-tool": "rename a tool",
  "rename-task": "rename a task",
  "rename-class": "rename an agent's class",
  "rename-binding": "rename an agent's binding",
  "rename-workflow": "rename a workflow",
  options: "change options",
  thread: "change a thread",
} as const;

export type Edit = keyof typeof EDITS;

/** Where a run is when the code changes: in relation to the step that is edited, with the kind that this step has. */
export const STATES = {
  before: { title: "before the step", kind: "prompt" },
  in: { title: "in the step", kind: "do" },
  waiting: { title: "waiting at the step", kind: "prompt" },
  after: { title: "after the step", kind: "prompt" },
  approval: { title: "approval open", kind: "approval" },
  batch: { title: "batch half done", kind: "batch" },
  webhook: { title: "webhook waited for", kind: "webhook" },
  tool: { title: "tool call open", kind: "prompt" },
} as const;

export type State = keyof typeof STATES;
export type Kind = (typeof STATES)[State]["kind"];

/** Perdure's workflow, the same with `versions()`, or one of the platform alone. */
export type Flavor = "perdure" | "versioned" | "plain";

export type Cell = { readonly flavor: Flavor; readonly edit: Edit; readonly state: State };

/** Of the object, of the workflow's instance, and of what the desk counts. */
export const idOf = ({ flavor, edit, state }: Cell): string => `${flavor}--${edit}--${state}`;

export function cellOf(id: string): Cell {
  const [flavor, edit, state] = id.split("--");
  return { flavor, edit, state } as Cell;
}

/** Edits of what is no part of a workflow. */
const OF_AGENTS: readonly Edit[] = ["rename-tool", "rename-task", "rename-class", "rename-binding"];
/** States of a step that the platform alone has as a `do` or an event. */
const PLAIN_STATES: readonly State[] = ["before", "in", "waiting", "after", "batch"];

export function allCells(): Cell[] {
  const edits = Object.keys(EDITS) as Edit[];
  const states = Object.keys(STATES) as State[];
  const of = (flavor: Flavor) =>
    edits.flatMap((edit) => states.map((state): Cell => ({ flavor, edit, state })));
  const plain = of("plain").filter(
    ({ edit, state }) =>
      !OF_AGENTS.includes(edit) && edit !== "thread" && PLAIN_STATES.includes(state),
  );
  const versioned = of("versioned").filter(
    ({ edit }) => !OF_AGENTS.includes(edit) && edit !== "rename-workflow",
  );
  return [...of("perdure"), ...versioned, ...plain];
}

/** What operators call the agents of an edit of agents. Each has a class of its own: the edit is the same for all its agents. */
const AGENTS = {
  "rename-tool": "Tooled",
  "rename-task": "Tasked",
  "rename-class": "Moved",
  "rename-binding": "Bound",
} as const satisfies Partial<Record<Edit, string>>;

export const kindOf = ({ edit }: Cell): string =>
  edit in AGENTS ? AGENTS[edit as keyof typeof AGENTS] : "CellAgent";

/** The bindings of a cell's agent and workflow in a half of the app. */
export function bindingsOf({ flavor, edit }: Cell, code: Code) {
  const isNew = code === "new";
  const workflow = { perdure: "FLOW", versioned: "VERSIONED", plain: "PLAIN" }[flavor];
  const renamed = isNew ? `${workflow}_RENAMED` : `${workflow}_NAMED`;
  const agents: Partial<Record<Edit, string>> = {
    "rename-tool": "TOOLED",
    "rename-task": "TASKED",
    "rename-class": "MOVED",
    "rename-binding": isNew ? "BOUND_RENAMED" : "BOUND",
  };
  return {
    workflow: edit === "rename-workflow" ? renamed : workflow,
    agent: agents[edit] ?? "AGENT",
  };
}
