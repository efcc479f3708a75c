/** Problems that could go unnoticed. Each is reported once: to the app's hook, or without a hook as one log line of JSON. */

/** The kinds of problems that Perdure reports. */
export type ProblemType =
  | "outbox:dead"
  | "outbox:endpoint"
  | "outbox:full"
  | "submission:error"
  | "scheduler:full";

/** A problem, without the content of any message or event. */
export type Problem = {
  readonly type: ProblemType;
  readonly level: "warn" | "error";
  /** A description of at most 500 characters. */
  readonly message: string;
  /** The ids, numbers and names that the problem concerns, each of at most 200 characters. */
  readonly ids: Readonly<Record<string, string | number>>;
};

export type OnProblem = (problem: Problem) => void | Promise<void>;

/** Logs a problem as one line of JSON. This is the default of `onProblem`. */
export function logProblem({ type, level, message, ids }: Problem): void {
  const line = JSON.stringify({ perdure: type, message, ...ids });
  if (level === "error") console.error(line);
  else console.warn(line);
}

const MAX_MESSAGE = 500;
const MAX_ID = 200;

/**
 * Calls the app's hook with a problem, or logs it. Never throws: if the hook fails, the problem is logged.
 *
 * @param run calls the hook in the agent's context
 */
export function reportProblem(
  hook: OnProblem | undefined,
  problem: Problem,
  run: (work: () => Promise<void>) => Promise<unknown>,
): void {
  const ids = Object.entries(problem.ids).map(([name, id]) => [name, cut(id, MAX_ID)]);
  const bounded = {
    ...problem,
    message: String(cut(problem.message, MAX_MESSAGE)),
    ids: Object.fromEntries(ids),
  };
  if (!hook) {
    logProblem(bounded);
    return;
  }
  run(async () => hook(bounded)).catch((error: unknown) => {
    console.error("[perdure] onProblem failed:", error);
    logProblem(bounded);
  });
}

function cut(text: string | number, most: number): string | number {
  if (typeof text === "number" || text.length <= most) return text;
  // Does not split a surrogate pair.
  return `${text.slice(0, most - 3).toWellFormed()}...`;
}
