/** The commands that the report, the dashboard and the command line print for an action mean that action. */

import { execFileSync } from "node:child_process";
import { Command } from "commander";
import fc from "fast-check";
import { expect, it } from "vitest";
import { addActions } from "../../src/cli/commands/act.ts";
import { DEFINITIONS } from "../../src/operator/catalog.ts";
import { commandOf, wordsOf } from "../../src/operator/command-line.ts";
import type { Action } from "../../src/operator/protocol.ts";

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
/** By the kind of a field. */
const VALUES = {
  id,
  key: fc.oneof(fc.constant(""), id),
  url: id,
  time,
  json: fc.jsonValue(),
  step: fc.oneof(
    fc.constant("failed"),
    fc.record({ name: id, count: fc.integer({ min: 1, max: 9 }) }, { requiredKeys: ["name"] }),
  ),
};
/** By the list that a filter selects from. */
const FILTERS: Readonly<Record<string, fc.Arbitrary<object>>> = {
  submissions: SUBMISSIONS,
  "dead-letters": DEAD,
  inbound: INBOUND,
  workflows: fc.record(
    {
      status: fc.constantFrom("errored", "running"),
      workflow: text,
      error: text,
      since: time,
    },
    { requiredKeys: [] },
  ),
};
const isOptional = (kind: string) => kind === "json" || kind === "step";

/** Each action of the catalog, on one item and on all that a filter selects. */
const action = fc.oneof(
  ...DEFINITIONS.flatMap(([name, { fields, filter }]) => {
    const all = Object.entries(fields);
    const given = Object.fromEntries(all.map(([field, [kind]]) => [field, VALUES[kind]]));
    const required = all.flatMap(([field, [kind]]) => (isOptional(kind) ? [] : [field]));
    const verb = fc.constant(name);
    const one = fc.record(
      { do: verb, ...given },
      { requiredKeys: ["do", ...(required as never[])] },
    );
    if (!filter) return [one];
    return [one, fc.record({ do: verb, filter: FILTERS[filter] ?? fc.constant({}) })];
  }),
) as unknown as fc.Arbitrary<Action>;

it("the help of each action describes its arguments and options", () => {
  const program = new Command("perdure");
  addActions(program);
  for (const command of program.commands)
    for (const { description } of [...command.registeredArguments, ...command.options])
      expect(description, command.name()).not.toBe("");
  const [cancel] = program.commands;
  expect(cancel?.helpInformation()).toContain("the id of the submission");
});

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
