/** The commands that the report, the dashboard and the command line print for an action mean that action. */

import { execFileSync } from "node:child_process";
import { Command } from "commander";
import fc from "fast-check";
import { expect, it } from "vitest";
import { addActions } from "../../../src/operator/cli/commands/act.ts";
import { commandOf, wordsOf } from "../../../src/operator/command-line.ts";
import type { Action } from "../../../src/operator/protocol.ts";

async function parsed(words: readonly string[]): Promise<Action | undefined> {
  let found: Action | undefined;
  const program = new Command("perdure").exitOverride();
  addActions(program, async (action) => {
    found = action;
  });
  await program.parseAsync([...words], { from: "user" });
  return found;
}

const id = fc
  .string({ unit: "grapheme", minLength: 1, maxLength: 40 })
  .filter((text) => !text.includes("\0"));
const time = fc.integer({ min: 0, max: 4_000_000_000_000 });
const text = id;
const status = fc.uniqueArray(fc.constantFrom("pending", "running", "error", "aborted"), {
  minLength: 1,
});
const SUBMISSIONS = fc.record(
  {
    status,
    thread: text,
    createdAfter: time,
    metadata: fc.dictionary(
      fc.stringMatching(/^[a-z]+$/),
      fc.oneof(text, fc.integer(), fc.boolean()),
      { minKeys: 1 },
    ),
  },
  { requiredKeys: [] },
);
const DEAD = fc.record(
  {
    since: time,
    isUncertain: fc.boolean(),
    destination: fc.record({ kind: fc.constant("queue"), queue: text }),
  },
  { requiredKeys: [] },
);
const INBOUND = fc.record({ source: text, type: text, since: time }, { requiredKeys: [] });
const one = (verbs: readonly string[], field: string) =>
  fc.record({ do: fc.constantFrom(...verbs), [field]: id });
const many = (verbs: readonly string[], filter: fc.Arbitrary<object>) =>
  fc.record({ do: fc.constantFrom(...verbs), filter });

const action = fc.oneof(
  one(["cancel", "retry"], "submissionId"),
  many(["cancel", "retry"], SUBMISSIONS),
  one(["redrive", "delete-dead-letter"], "deliveryId"),
  many(["redrive", "delete-dead-letter"], DEAD),
  one(["enable-endpoint", "disable-endpoint"], "url"),
  fc.record({ do: fc.constant("replay"), source: id, id }),
  many(["replay"], INBOUND),
  fc.record(
    { do: fc.constant("approve"), approvalId: id, payload: fc.jsonValue() },
    { requiredKeys: ["do", "approvalId"] },
  ),
  one(["reject"], "approvalId"),
  one(["pause-task", "resume-task", "trigger-task", "skip-next"], "taskId"),
  fc.record({ do: fc.constant("backfill"), taskId: id, from: time, to: time }),
  one(["pause-workflow", "resume-workflow", "terminate-workflow"], "workflowId"),
  fc.record(
    {
      do: fc.constant("restart-workflow"),
      workflowId: id,
      step: fc.record(
        { name: id, count: fc.integer({ min: 1, max: 9 }) },
        { requiredKeys: ["name"] },
      ),
    },
    { requiredKeys: ["do", "workflowId"] },
  ),
  one(["clear-thread"], "thread"),
) as fc.Arbitrary<Action>;

/** As JSON, where -0 and a missing prototype do not count. */
const plain = (value: unknown) => JSON.parse(JSON.stringify(value));

it("any action, printed and read again, is the same action", async () => {
  await fc.assert(
    fc.asyncProperty(action, async (given) => {
      expect(plain(await parsed(wordsOf(given, ["--agent", "Shop/main"])))).toEqual(plain(given));
    }),
    { numRuns: 1_000 },
  );
});

it("a shell reads the words of a printed command as they were", () => {
  fc.assert(
    fc.property(action, id, (given, name) => {
      const ref = { agent: "Shop", name };
      const printed = commandOf(ref, given).replace(/^npx perdure/, "printf '%s\\0'");
      const words = execFileSync("bash", ["-c", printed], { encoding: "utf8" })
        .split("\0")
        .slice(0, -1);
      expect(words).toEqual(wordsOf(given, ["--agent", `Shop/${name}`]));
    }),
    { numRuns: 100 },
  );
});
