/** Checks that the built package can be imported in Node where it should. Run after `npm run build`. */

import assert from "node:assert/strict";
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
console.log(`perdure/scheduler runs in Node ${process.versions.node}`);
