/** Which tests `npm test` runs a second time, without its other processes, and how they count. */

/** The parts of a report of Vitest that are read. */
export type TestReport = {
  readonly numPassedTests: number;
  readonly numFailedTests: number;
  readonly testResults: readonly {
    /** The path of the file. */
    readonly name: string;
    readonly status: string;
    readonly assertionResults: readonly { readonly status: string; readonly fullName: string }[];
  }[];
};

export type Repeat = { readonly files: readonly string[]; readonly tests: readonly string[] };

/** More files than these do not fail because the machine is busy. */
const MOST_FILES = 2;
/** Random inputs and points of a crash: a defect may fail one run and pass the next. */
const CHANCE = /fast-check|crashAtEveryWrite|crash matrix/;

/**
 * The files to run again, with their failed tests. Undefined where the failure counts: more than two files, one that could not
 * be loaded or whose hooks failed, an error outside of the tests, no report, or a file that tries random inputs or crashes.
 *
 * @param output what the run has printed
 * @param sourceOf the text of a file
 */
export function repeatOf(
  { testResults }: TestReport,
  output: string,
  sourceOf: (file: string) => string,
): Repeat | undefined {
  const failed = testResults.filter(({ status }) => status === "failed");
  if (failed.length === 0 || failed.length > MOST_FILES || /Unhandled Error/.test(output))
    return undefined;
  const tests = failed.map(({ assertionResults }) =>
    assertionResults.flatMap(({ status, fullName }) => (status === "failed" ? [fullName] : [])),
  );
  if (tests.some((names) => names.length === 0)) return undefined;
  const files = failed.map(({ name }) => name);
  if (files.some((file) => /crash|model/.test(file) || CHANCE.test(sourceOf(file))))
    return undefined;
  return { files, tests: tests.flat() };
}

/** `.ci/run` finds the lines by these words. */
const LATE = "failed beside the other processes, and passed alone";

/**
 * The last lines of a run, and how many tests failed.
 *
 * @param late the tests that failed, and passed alone. They count as failed if the run is strict
 * @param isOk false if a check failed, or a test that counts at once
 */
export function resultOf(
  reports: readonly TestReport[],
  late: readonly string[],
  { isOk, isStrict }: { isOk: boolean; isStrict: boolean },
): { lines: string[]; failed: number } {
  const sumOf = (count: "numPassedTests" | "numFailedTests") =>
    reports.reduce((sum, report) => sum + report[count], 0);
  const excused = isStrict ? 0 : late.length;
  const failed = Math.max(sumOf("numFailedTests") - excused, isOk ? 0 : 1);
  const counts = `${sumOf("numPassedTests") + excused} passed, ${failed} failed`;
  return { lines: [...late.map((name) => `${LATE}: ${name}`), counts], failed };
}
