/** `inspectWork()` on an object with bare capabilities. test/hosts/think/testing.test.ts has a host. */

import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { InvalidScenarioError, inspectWork } from "../../src/testing/index.ts";
import { givenLedger, message, refusal, until } from "../support/given.ts";
import { forever, submit, within } from "../support/ledger.ts";
import { schedulerScripts } from "../support/objects/scheduler-object.ts";
import { task } from "../support/scheduler.ts";

it("inspectWork() returns open and ended work of an object with bare capabilities", async () => {
  const stub = givenLedger();
  await submit(stub, {}, { submissionId: "ended" });
  await until(async () => (await stub.inspect("ended"))?.status === "completed");
  expect(await inspectWork(stub)).toMatchObject({
    open: [],
    submissions: [{ submissionId: "ended", status: "completed" }],
    deliveries: [],
    tasks: [],
    isCut: false,
  });
  await within(stub, ({ turns }) => {
    turns.run = forever;
  });
  await submit(stub, {}, { submissionId: "open" });
  const { open, submissions, alarm } = await inspectWork(stub);
  expect(open).toEqual(["L1 submission open is still pending"]);
  expect(submissions.map(({ submissionId }) => submissionId)).toEqual(["open", "ended"]);
  expect(alarm).not.toBeNull();
});

it("inspectWork() lists the tasks of an object with a bare scheduler", async () => {
  const name = crypto.randomUUID();
  schedulerScripts.set(name, {
    tasks: () => ({ hourly: task(() => {}, { schedule: "every hour" }) }),
  });
  const work = await inspectWork(env.SchedulerObject.getByName(name));
  expect(work).toMatchObject({ open: [], runs: [], submissions: [], isCut: false });
  expect(work.tasks).toMatchObject([{ taskId: "hourly", state: "active" }]);
});

it("inspectWork() reads page by page up to its limit, and returns that there is more", async () => {
  const stub = givenLedger();
  await within(stub, ({ submissions }) =>
    submissions.submitMany(
      Array.from({ length: 1_003 }, () => ({
        messages: [message({})],
        options: { notBefore: Date.now() + 3_600_000 },
      })),
    ),
  );
  const all = await inspectWork(stub);
  expect([all.submissions.length, all.isCut, all.open]).toEqual([1_003, false, []]);
  const some = await inspectWork(stub, { limit: 1_001 });
  expect([some.submissions.length, some.isCut]).toEqual([1_001, true]);
});

it("inspectWork() refuses an invalid option", async () => {
  const error = await refusal(inspectWork(givenLedger(), { limit: 0 }));
  expect(error).toBeInstanceOf(InvalidScenarioError);
  expect(error.message).toMatch(/Invalid limit 0/);
});
