/**
 * What went wrong and could otherwise go unnoticed. The app's hook is told of
 * it once; without a hook it is logged as one line of JSON.
 */

/** The kinds of problems that Perdure tells of. */
export type ProblemType =
  | "outbox:dead"
  | "outbox:endpoint"
  | "outbox:full"
  | "submission:error"
  | "scheduler:full";

/** Something that went wrong, without the content of any message or event. */
export type Problem = {
  readonly type: ProblemType;
  readonly level: "warn" | "error";
  /** For a person, at most 500 characters. */
  readonly message: string;
  /** What it is about: ids, numbers and names, each of at most 200 characters. */
  readonly ids: Readonly<Record<string, string | number>>;
};

export type OnProblem = (problem: Problem) => void | Promise<void>;

/** Logs a problem as one line of JSON. This is what happens where no `onProblem` says otherwise. */
export function logProblem({ type, level, message, ids }: Problem): void {
  const line = JSON.stringify({ perdure: type, message, ...ids });
  if (level === "error") console.error(line);
  else console.warn(line);
}

const MAX_MESSAGE = 500;
const MAX_ID = 200;

/**
 * Tells the app's hook of a problem, or logs it. Never throws: a problem whose hook fails is logged.
 *
 * @param run how the hook is called: as the agent
 */
export function tellProblem(
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
  // Not in the middle of a surrogate pair.
  return `${text.slice(0, most - 3).toWellFormed()}...`;
}
