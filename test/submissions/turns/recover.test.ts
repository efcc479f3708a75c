import { describe, expect, it } from "vitest";
import {
  type Evidence,
  HOST_RECOVERY_LIMIT_MS,
  isAskedAgain,
  recover,
} from "../../../src/submissions/turns/next-attempt.ts";

const APPLIED = ["none", "partial", "all"] as const;
const MAX_ATTEMPTS = 5;
const LATE = HOST_RECOVERY_LIMIT_MS;

/**
 * What is expected, written as a table: the first row that matches decides. A
 * column that is left out does not matter.
 */
const TABLE = [
  { isAnswered: true, expected: "complete" },
  { isReplied: true, expected: "complete" },
  { applied: ["partial", "all"], isHostRecovering: true, isLate: false, expected: "wait" },
  { hasEffects: true, mayRepeatEffects: false, expected: "fail" },
  { isLastAttempt: true, expected: "fail" },
  { expected: "startOver" },
] as const;

/** Every combination of what a restart can find, 768 of them. */
const COMBINATIONS = combined({
  isAnswered: [true, false],
  isReplied: [true, false],
  applied: APPLIED,
  hasEffects: [true, false],
  mayRepeatEffects: [true, false],
  isHostRecovering: [true, false],
  attempts: [1, MAX_ATTEMPTS - 1, MAX_ATTEMPTS, MAX_ATTEMPTS + 1],
  maxAttempts: [MAX_ATTEMPTS],
  waitedMs: [LATE - 1, LATE],
});

/** Every choice of one value for each name. */
function combined(
  choices: {
    [Name in keyof Evidence]: readonly Evidence[Name][];
  },
): Evidence[] {
  return Object.entries(choices).reduce<object[]>(
    (all, [name, values]) =>
      all.flatMap((one) => values.map((value) => ({ ...one, [name]: value }))),
    [{}],
  ) as Evidence[];
}

function expected({ attempts, waitedMs, ...found }: Evidence): string {
  const facts = { ...found, isLastAttempt: attempts >= MAX_ATTEMPTS, isLate: waitedMs >= LATE };
  const row = TABLE.find(({ expected: _, ...columns }) =>
    Object.entries(columns).every(([column, value]) =>
      ([value].flat() as unknown[]).includes(facts[column as keyof typeof facts]),
    ),
  );
  return row?.expected ?? "nothing";
}

describe("L6: the decision about a submission that was running when its object stopped", () => {
  it("there are 768 combinations, and each outcome is among them", () => {
    expect(COMBINATIONS).toHaveLength(768);
    expect(new Set(COMBINATIONS.map(expected))).toEqual(
      new Set(["complete", "wait", "fail", "startOver"]),
    );
  });

  it.each(COMBINATIONS)(
    "answered $isAnswered, replied $isReplied, applied $applied, effects $hasEffects (may repeat: $mayRepeatEffects), host recovers $isHostRecovering, attempt $attempts, waited $waitedMs ms",
    (evidence) => {
      expect(recover(evidence).action).toBe(expected(evidence));
    },
  );

  it("L6: a turn whose tools had effects is not run again, unless the caller allows it", () => {
    const withEffects = COMBINATIONS.filter(
      ({ hasEffects, mayRepeatEffects }) => hasEffects && !mayRepeatEffects,
    ).map(recover);
    expect(withEffects.filter(({ action }) => action === "startOver")).toEqual([]);
  });

  it("a failure has the reason and the value", () => {
    const evidence = {
      isAnswered: false,
      isReplied: false,
      applied: "all",
      mayRepeatEffects: false,
      isHostRecovering: false,
      maxAttempts: 5,
      waitedMs: 0,
    } as const;
    expect(recover({ ...evidence, hasEffects: true, attempts: 1 })).toEqual({
      action: "fail",
      failure: {
        name: "TurnInterruptedError",
        message:
          "The turn was interrupted, and its tools have had effects, so it is not run again.",
      },
    });
    expect(recover({ ...evidence, hasEffects: false, attempts: 5 })).toMatchObject({
      failure: { message: "The turn was interrupted, and this was attempt 5 of 5." },
    });
  });
});

describe("L6, L7: an answer that may be lost with a crash", () => {
  const answered = COMBINATIONS.filter(({ isAnswered, isReplied }) => !isAnswered && !isReplied);

  it.each([false, true])(
    "is given again whatever the restart finds; with a budget: %s",
    (hasBudget) => {
      const lost = answered.filter((evidence) => isAskedAgain({ ...evidence, hasBudget }));
      expect(lost).toHaveLength(hasBudget ? 0 : 48);
      for (const evidence of lost) {
        expect(["startOver", "wait"]).toContain(recover(evidence).action);
      }
    },
  );

  it("is not of a turn whose tools have had effects, though those may be repeated", () => {
    const acted = answered.filter(({ hasEffects }) => hasEffects);
    expect(acted.filter((evidence) => isAskedAgain({ ...evidence, hasBudget: false }))).toEqual([]);
  });
});
