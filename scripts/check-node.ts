/** Checks what the built package says in Node: the scheduler runs, and `perdure` names its entries. Run after `npm run build`. */

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import path from "node:path";
import * as scheduler from "perdure/scheduler";

const after = new Date("2027-03-14T06:00:00Z");
const next = scheduler.nextOccurrence("every day at 02:30 in America/New_York", { after });
assert.equal(next, Date.parse("2027-03-14T07:00:00Z"));
assert.match(
  String(scheduler.explainSchedule("every monday at 09:00 in Europe/London")),
  /Monday/i,
);
assert.throws(() => scheduler.parseSchedule("every monday"), { name: "ScheduleSyntaxError" });
assert.equal(scheduler.instanceIdFor("a-1"), "a-1");

// The name is no literal: before a build, TypeScript does not find it.
const root = "perdure" as string;
const { exports } = JSON.parse(readFileSync("package.json", "utf8")) as { exports: object };
const [, ...entries] = Object.keys(exports).filter((entry) => !entry.endsWith(".json"));
await assert.rejects(import(root), {
  message: `perdure has no root entry. Import one of its entries: ${entries.map((entry) => path.posix.join(root, entry)).join(", ")}.`,
});
// A named import is linked before the module runs.
const named = 'import { DurableThink } from "perdure";';
const { stderr } = spawnSync(process.execPath, ["--input-type=module", "--eval", named], {
  encoding: "utf8",
});
assert.match(stderr, /Error: perdure has no root entry/);
console.log(`perdure/scheduler runs in Node ${process.versions.node}`);
