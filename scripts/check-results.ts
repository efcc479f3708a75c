/**
 * Checks that `bench/results.md` is of about this code: not more than 30 days older than the last commit, and at most a fifth of
 * the lines of `src` changed since the commit that brought it.
 */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import path from "node:path";

const RESULTS = "bench/results.json";
const MAX_DAYS = 30;
const MAX_CHANGED = 0.2;
const DAY_MS = 86_400_000;
/** Code that is written by hand. */
const CODE = ["src/*.ts", "src/*.tsx", ":!*.generated.ts"];

/** @param root of the repository. @returns what is wrong */
export function problemOfResults(root: string): string | undefined {
  const git = (...args: string[]) =>
    execFileSync("git", args, { cwd: root, encoding: "utf8", maxBuffer: 2 ** 28 });
  const { date } = JSON.parse(readFileSync(path.join(root, RESULTS), "utf8")) as { date: string };
  const days = (Date.parse(git("log", "-1", "--format=%cI").trim()) - Date.parse(date)) / DAY_MS;
  const remedy = "Run `npm run bench` on a quiet machine, and commit its results.";
  if (days > MAX_DAYS) {
    return `bench/results.md is ${Math.floor(days)} days older than the last commit; at most ${MAX_DAYS}. ${remedy}`;
  }
  const measured = git("log", "--format=%H", `-S"date": "${date}"`, "--", RESULTS).trim();
  // Not committed yet: just measured.
  if (measured === "") return undefined;
  const from = measured.split("\n").at(-1) as string;
  const changed = sumOf(git("diff", "--numstat", "-M", from, "HEAD", "--", ...CODE));
  const lines = sumOf(git("diff", "--numstat", EMPTY_TREE, from, "--", ...CODE));
  const share = changed / Math.max(1, lines);
  if (share <= MAX_CHANGED) return undefined;
  const percent = (part: number) => `${Math.round(part * 100)} percent`;
  return `Of the ${lines} lines of src that bench/results.md measured in ${from.slice(0, 7)}, ${percent(share)} were added or removed since; at most ${percent(MAX_CHANGED)}. ${remedy}`;
}

/** Of every repository. */
const EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

/** Added and removed lines. */
function sumOf(numstat: string): number {
  const counts = [...numstat.matchAll(/^(\d+)\t(\d+)\t/gm)];
  return counts.reduce((sum, [, added, removed]) => sum + Number(added) + Number(removed), 0);
}

if (import.meta.main) {
  const problem = problemOfResults(path.join(import.meta.dirname, ".."));
  console.log(problem ?? "bench/results.md is of about this code");
  process.exitCode = problem === undefined ? 0 : 1;
}
