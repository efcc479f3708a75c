/** The options of submissions that need limits(), in a plain object that does not install it. */

import { describe, expect, it } from "vitest";
import type { SubmitMessagesOptions } from "../../../src/submissions/index.ts";
import { message, refusal } from "../../support/given.ts";
import { WITHOUT_LIMITS } from "../../support/limits/options.ts";
import { inObject, plainObject } from "../../support/plain-object.ts";

const LINE = "static override readonly features = [limits()]";

/** The error of a call, and the rows that the object has afterwards. */
function refused(
  work: (durable: ReturnType<typeof plainObject>["durable"]) => Promise<unknown>,
): Promise<{ error: Error; rows: number; alarm: number | null }> {
  return inObject(async (ctx, given) => {
    const { durable, lifecycle } = plainObject(ctx, given, []);
    await lifecycle.start();
    const error = await refusal(work(durable));
    const { sql } = ctx.storage;
    const count = (table: string) => sql.exec(`SELECT 1 FROM ${table}`).toArray().length;
    const rows = count("perdure_submissions") + count("perdure_outbox");
    return { error, rows, alarm: await ctx.storage.getAlarm() };
  });
}

describe("L1: without limits()", () => {
  it.each(WITHOUT_LIMITS)("%s is refused with the line to add: %j", async (usedBy, options) => {
    const { error, ...stored } = await refused((durable) =>
      durable.submitMessages([message("hello")], options as SubmitMessagesOptions),
    );
    expect(error).toMatchObject({ name: "FeatureNotInstalledError", feature: "limits", usedBy });
    expect(error.message).toContain(`${usedBy} needs limits(). `);
    expect(error.message).toContain(LINE);
    expect(error.message).toContain('Import it from "perdure/limits".');
    expect(stored).toEqual({ rows: 0, alarm: null });
  });

  it("submitMany() names the item, and stores none", async () => {
    const { error, ...stored } = await refused((durable) =>
      durable.submitMany([
        { messages: [message("one")] },
        { messages: [message("two")], options: { rate: { key: "k", limit: "1 per day" } } },
      ]),
    );
    expect(error).toMatchObject({ name: "FeatureNotInstalledError", usedBy: "rate" });
    expect(error.message).toContain("item 1 of submitMany(): rate needs limits(). ");
    expect(stored).toEqual({ rows: 0, alarm: null });
  });

  it("runWorkflow() with a key of its prompts is refused with the line to add", async () => {
    const { error, ...stored } = await refused(async (durable) =>
      durable.runWorkflow("WORKFLOW", {}, { concurrency: { key: "k", limit: 1 } }),
    );
    expect(error).toMatchObject({ name: "FeatureNotInstalledError", usedBy: "concurrency" });
    expect(error.message).toContain(LINE);
    expect(stored).toEqual({ rows: 0, alarm: null });
  });

  it("a budget of tokens is accepted", async () => {
    const status = await inObject(async (ctx, given) => {
      const { durable } = plainObject(ctx, given, []);
      const options = { budget: { tokens: 10 }, notBefore: new Date(Date.now() + 60_000) };
      return (await durable.submitMessages([message("hello")], options)).status;
    });
    expect(status).toBe("pending");
  });
});
