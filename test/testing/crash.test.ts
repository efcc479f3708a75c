/** The crash kit as a user calls it: a correct object passes, and each planted defect is found. */

import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import {
  type CrashReport,
  type CrashScenario,
  crashAtEveryWrite,
  InvalidScenarioError,
} from "../../src/testing/index.ts";
import { message, refusal, until } from "../support/given.ts";
import { couriers, delivered } from "../support/objects/ledger-object.ts";
import { HANG_MS } from "../support/sizes.ts";
import { hanging, looks, type PlantedObject } from "./planted-object.ts";

// Each test plays some forty runs.
vi.setConfig({ testTimeout: 600_000 });

type Scenario = CrashScenario<PlantedObject>;

/** One turn with a destination, from its acceptance to its delivery. */
function scenario(name: string, rest: Partial<Scenario> = {}): Scenario {
  return {
    name,
    objects: env.PlantedObject,
    timeout: HANG_MS,
    prepare: (stub) => stub.list(),
    steps: [
      async (stub, { id }) => {
        // The kit inspects the end before its delivery: a second inspection begins when the first is recorded.
        couriers.set(id, async () => {
          const before = looks.get(id) ?? 0;
          await until(() => (looks.get(id) ?? 0) >= before + 2);
        });
        const notify = [
          { kind: "workflow", workflow: "PROMPT_WORKFLOW", instance: id, eventType: "e" },
        ];
        await stub.submit([message({ delayMs: 5 }, "said")], {
          idempotencyKey: id,
          notify,
        } as object);
      },
    ],
    check: (_, { id }) => {
      if (rest.steps) return [];
      const ids = new Set(delivered.get(id)?.map((one) => one.id));
      return ids.size === 1 ? [] : [`O2 the workflow received the end under ${ids.size} ids`];
    },
    expect: { messages: (object) => (object as PlantedObject).said() },
    ...rest,
  };
}

/** The points with problems, each as its moment and the first words of its statement. */
function wrongAt({ wrong }: CrashReport): string[] {
  return wrong.map(({ moment, what }) => {
    const [statement] = /^\w+(?: OR IGNORE)?(?: INTO| FROM)? [a-z_]+|^\w+/.exec(what) ?? [what];
    return `${moment} ${statement}`;
  });
}

/** The turn has not ended when the crash comes there. */
const ACCEPTED = "soon after INSERT INTO perdure_submissions";

function expectFound(report: CrashReport, found: { always: string[]; never: string[] }): void {
  const wrong = wrongAt(report);
  for (const point of found.always) expect(wrong).toContain(point);
  for (const point of found.never) expect(wrong).not.toContain(point);
}

const allProblems = ({ wrong }: CrashReport) => wrong.flatMap(({ problems }) => problems);

it("L1 L4 O1 O2: a turn survives a crash at every write and every delivery", async () => {
  const report = await crashAtEveryWrite(scenario("a turn"));
  expect(report.wrong).toEqual([]);
  expect(report.crashed).toBe(report.points);
  const { writes } = report;
  expect(report.points).toBe(writes.length * 3 + 2);
  for (const phase of [/INTO perdure_submissions/, /'running'/, /INTO perdure_outbox/]) {
    expect(writes.some((what) => phase.test(what))).toBe(true);
  }
  expect(String(report)).toBe(`crash matrix: a turn: ${report.points} points, 0 wrong`);
});

it("L1 O2: a turn survives a second crash at every write after the first", async () => {
  const report = await crashAtEveryWrite(
    scenario("a turn", { again: /INTO conversation/, moments: ["soon after"] }),
  );
  expect(report.wrong).toEqual([]);
  expect(report.name).toBe("a turn, again");
  expect(report.crashed).toBeGreaterThan(5);
});

describe("a planted defect is found, and only where it has an effect", () => {
  it("O2: an object that loses its outbox entry is found", async () => {
    const report = await crashAtEveryWrite(scenario("forgets"));
    for (const problem of allProblems(report)) {
      expect(problem).toMatch(/^O2 .*(under 0 ids|and no destination accepted it)$/);
    }
    expectFound(report, {
      always: ["soon after INSERT INTO perdure_outbox"],
      // Not accepted or not ended before the crash, or delivered.
      never: [ACCEPTED, "after attempt", "soon after DELETE FROM perdure_outbox"],
    });
  });

  it("L1: an end that a late write changes is found", async () => {
    const report = await crashAtEveryWrite(scenario("twice"));
    for (const { problems } of report.wrong) {
      expect(problems).toEqual([
        expect.stringMatching(/^L1 .* has changed after its end: .*"done".*, then .*"late".*$/),
      ]);
    }
    const deleted = ["before", "after", "soon after"].map(
      (moment) => `${moment} DELETE FROM perdure_outbox`,
    );
    expectFound(report, {
      always: ["after attempt", ...deleted],
      never: [ACCEPTED, "before INSERT INTO perdure_outbox", "after INSERT INTO perdure_outbox"],
    });
  });

  it("L2: a status that follows an end is found", async () => {
    const report = await crashAtEveryWrite(scenario("revives"));
    const problems = report.wrong.flatMap((point) => point.problems);
    expect(problems).toContainEqual(
      expect.stringMatching(/^L2 .*: completed was followed by running$/),
    );
  });

  it("L1: a submission that never ends is found", async () => {
    // The time of a play is over as soon as its turn hangs. Others have a minute, also on a busy machine.
    const realNow = performance.now.bind(performance);
    const now = vi.spyOn(performance, "now");
    now.mockImplementation(() => realNow() + hanging.size * HANG_MS);
    const report = await crashAtEveryWrite(
      scenario("endless", { moments: ["soon after"], concurrency: 1 }),
    ).finally(() => now.mockRestore());
    for (const problem of allProblems(report)) {
      expect(problem).toMatch(
        /^not over after 60 seconds: L1 submission .* is still (pending|running); its alarm is/,
      );
    }
    expectFound(report, {
      always: [ACCEPTED],
      never: ["soon after INSERT INTO perdure_outbox", "soon after DELETE FROM perdure_outbox"],
    });
  });

  it("L1: an object that sets no alarm is found, though its verbs start it", async () => {
    const report = await crashAtEveryWrite(scenario("asleep", { moments: ["soon after"] }));
    for (const problem of allProblems(report)) {
      expect(problem).toMatch(/^no alarm is set, and (L1 submission|O2 delivery) .* (is )?still /);
    }
    expectFound(report, {
      always: ["soon after INSERT INTO perdure_outbox"],
      never: ["soon after DELETE FROM perdure_outbox"],
    });
  });

  it("L4: a message that is appended twice is found", async () => {
    const report = await crashAtEveryWrite(scenario("repeats", { moments: ["soon after"] }));
    expect(new Set(allProblems(report))).toEqual(
      new Set(["L4 message said is in its conversation 2 times"]),
    );
    expectFound(report, {
      always: ["soon after UPDATE perdure_submissions"],
      never: ["soon after INSERT INTO perdure_outbox", "soon after DELETE FROM perdure_outbox"],
    });
  });

  it("O2: a delivery that is sent under a new id each time is found", async () => {
    const report = await crashAtEveryWrite(scenario("renames"));
    for (const problem of allProblems(report)) {
      expect(problem).toMatch(/^O2 .*(under 2 ids|and no destination accepted it)$/);
    }
    expect(allProblems(report)).toContainEqual(expect.stringMatching(/under 2 ids$/));
    expectFound(report, {
      // The workflow had the event, and gets it again.
      always: ["after attempt", "before DELETE FROM perdure_outbox"],
      never: [ACCEPTED, "soon after DELETE FROM perdure_outbox"],
    });
  });
});

describe("invalid scenarios", () => {
  it.each<[string, Partial<Record<keyof Scenario | "step", unknown>>, RegExp]>([
    ["an unknown option", { step: [] }, /Unknown option "step" in scenario. Valid options: name, /],
    ["an empty name", { name: "" }, /Invalid name "": expected a non-empty string/],
    [
      "an empty list of steps",
      { steps: [] },
      /Invalid steps \[\]: expected a list with at least one/,
    ],
    [
      "an unknown moment",
      { moments: ["later"] },
      /Invalid moments\[0\] "later": expected "before", "after" or "soon after"/,
    ],
    [
      "an empty list of moments",
      { moments: [] },
      /Invalid moments \[\]: expected a non-empty list/,
    ],
    ["a stride of 0", { stride: 0 }, /Invalid stride 0: expected a whole number from 1/],
    ["a concurrency of a half", { concurrency: 0.5 }, /Invalid concurrency 0.5/],
    [
      "an invalid timeout",
      { timeout: "soon" },
      /Invalid timeout "soon": expected a positive number/,
    ],
    ["an invalid binding", { objects: {} }, /Invalid objects \{\}: expected the binding/],
    [
      "an object that cannot be crashed",
      { objects: env.SdkObject, prepare: undefined },
      /crashable\(YourClass\)/,
    ],
    [
      "a step that fails by itself",
      { steps: [() => Promise.reject(new Error("no"))] },
      /step 1 fails without a crash: no/,
    ],
    [
      "a preparation that fails",
      { prepare: () => Promise.reject(new Error("no")) },
      /prepare\(\) failed: no/,
    ],
    ["steps that write nothing", { steps: [() => {}] }, /it writes nothing/],
    [
      "a check that finds something without a crash",
      { check: () => ["all is lost"] },
      /problems without a crash: all is lost/,
    ],
    [
      "no write to crash at first",
      { again: /INTO nowhere/ },
      /no write matches again: \/INTO nowhere\//,
    ],
    [
      "an unknown invariant",
      { expect: { letters: true } },
      /Unknown option "letters" in options of invariantsOf\(\)/,
    ],
  ])("a scenario with %s is refused", async (_, rest, message) => {
    const error = await refusal(crashAtEveryWrite(scenario("refused", rest as Partial<Scenario>)));
    expect(error).toBeInstanceOf(InvalidScenarioError);
    expect(error.message).toMatch(message);
  });
});
