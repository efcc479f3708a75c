import { expect, it } from "vitest";
import { repeatOf, resultOf, type TestReport } from "../../scripts/repeat.ts";

type File = TestReport["testResults"][number];

const passed = { status: "passed", fullName: "passes" };
const late = { status: "failed", fullName: "is late" };
const file = (name: string, status: string, tests: File["assertionResults"]): File => ({
  name,
  status,
  assertionResults: tests,
});
const report = (...testResults: File[]): TestReport => ({
  numPassedTests: 0,
  numFailedTests: 0,
  testResults,
});
const slow = file("/p/test/slow.test.ts", "failed", [passed, late]);
const source = () => "";

it("a file with a failed test is run again, without those that passed", () => {
  const good = file("/p/test/good.test.ts", "passed", [passed]);
  const found = repeatOf(report(good, slow), "", source);
  expect(found).toEqual({ files: ["/p/test/slow.test.ts"], tests: ["is late"] });
});

it.each<[string, TestReport, string?, string?]>([
  ["a run without a report", report()],
  ["more than two files", report(slow, slow, slow)],
  ["a file that could not be loaded", report(slow, file("/p/test/gone.test.ts", "failed", []))],
  ["a file whose hook failed", report(file("/p/test/hook.test.ts", "failed", [passed]))],
  ["an error outside of the tests", report(slow), "⎯⎯ Unhandled Errors ⎯⎯"],
  ["a test of crashes", report(file("/p/test/outbox/crash.test.ts", "failed", [late]))],
  ["a test of a model", report(file("/p/test/waits/model.test.ts", "failed", [late]))],
  ["a file with random inputs", report(slow), "", 'import fc from "fast-check";'],
  ["a file that crashes at every write", report(slow), "", "await crashAtEveryWrite({"],
])("%s counts as failed at once", (_, given, output = "", text = "") => {
  expect(repeatOf(given, output, () => text)).toBeUndefined();
});

const counted = { ...report(slow), numPassedTests: 5, numFailedTests: 1 };
const named = "failed beside the other processes, and passed alone: is late";

it("a test that fails beside others and passes alone is named before the counts", () => {
  const { lines, failed } = resultOf([counted], ["is late"], { isOk: true, isStrict: false });
  expect(lines).toEqual([named, "6 passed, 0 failed"]);
  expect(failed).toBe(0);
});

it("a test that fails beside others fails the long form", () => {
  const { lines, failed } = resultOf([counted], ["is late"], { isOk: true, isStrict: true });
  expect(lines).toEqual([named, "5 passed, 1 failed"]);
  expect(failed).toBe(1);
});

it("a failed check counts as one failed test", () => {
  const { lines, failed } = resultOf([report()], [], { isOk: false, isStrict: false });
  expect([...lines, failed]).toEqual(["0 passed, 1 failed", 1]);
});
