/** Problems that could go unnoticed. Each is reported once: to the app's hook, or without a hook as one log line of JSON. */

/** The kinds of problems that Perdure reports. */
export type ProblemType =
  | "outbox:dead"
  | "outbox:endpoint"
  | "outbox:cut"
  | "outbox:full"
  | "outbox:secret"
  | "outbox:uninstalled"
  | "outbox:telemetry"
  | "inbound:conflict"
  | "submission:error"
  | "scheduler:full"
  | "scheduler:dropped"
  | "wait:lookback"
  | "limit:money";

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
  const ids = Object.entries(problem.ids).map(([name, id]) => [
    name,
    typeof id === "string" ? cut(id, 200) : id,
  ]);
  const bounded = {
    ...problem,
    message: cut(problem.message, 500),
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

/** Does not leave half of a surrogate pair. */
function cut(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, most - 3).toWellFormed()}...`;
}
