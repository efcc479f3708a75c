import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, expect, it } from "vitest";
import { problemOfResults } from "../../scripts/check-results.ts";

const folder = mkdtempSync(path.join(tmpdir(), "perdure-results-"));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const write = (file: string, text: string) => {
  mkdirSync(path.dirname(path.join(folder, file)), { recursive: true });
  writeFileSync(path.join(folder, file), text);
};
const git = (args: readonly string[], at: string) =>
  execFileSync("git", [...["-c", "user.name=A", "-c", "user.email=a@example.com"], ...args], {
    cwd: folder,
    env: { ...process.env, GIT_COMMITTER_DATE: at, GIT_AUTHOR_DATE: at },
  });
const commit = (at: string) => {
  git(["add", "-A"], at);
  git(["commit", "-qm", "a commit"], at);
};
const linesOf = (word: string, count: number) =>
  Array.from({ length: count }, (_, index) => `${word} ${index}\n`).join("");

it("the results of a benchmark are stale after 30 days, or when a fifth of the code has changed", () => {
  const date = "2026-01-01T00:00:00.000Z";
  const results = (more: string) => `{\n  "date": "${more || date}"\n}\n`;
  git(["init", "-q"], date);
  write("src/a/code.ts", linesOf("a", 1_000));
  write("src/b.generated.ts", linesOf("g", 1_000));
  write("bench/results.json", results(""));
  expect(() => problemOfResults(folder)).toThrow(); // no commit yet
  commit(date);
  expect(problemOfResults(folder)).toBeUndefined();

  // Moved, and a tenth replaced; what is generated and what is no code does not count.
  rmSync(path.join(folder, "src/a"), { recursive: true });
  write("src/c/code.ts", linesOf("a", 900) + linesOf("b", 90));
  write("src/b.generated.ts", linesOf("h", 1_000));
  write("src/README.md", linesOf("r", 1_000));
  commit("2026-01-31T00:00:00.000Z");
  expect(problemOfResults(folder)).toBeUndefined();

  write("src/c/code.ts", linesOf("a", 900) + linesOf("b", 200));
  commit("2026-01-31T00:00:00.000Z");
  expect(problemOfResults(folder)).toMatch(
    /^Of the 1000 lines of src that bench\/results\.md measured in \w{7}, 30 percent were added or removed since; at most 20 percent\. Run `npm run bench`/,
  );

  // Measured again: fine before and after the commit.
  write("bench/results.json", results("2026-01-31T00:00:00.000Z"));
  expect(problemOfResults(folder)).toBeUndefined();
  commit("2026-02-01T00:00:00.000Z");
  expect(problemOfResults(folder)).toBeUndefined();
  write("note.md", "");
  commit("2026-03-05T00:00:00.000Z");
  expect(problemOfResults(folder)).toMatch(/^bench\/results\.md is 33 days older/);
});
