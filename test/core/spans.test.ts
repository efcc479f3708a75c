/** Spans with a tracing of the test's own. Those of the runtime are in test/operator/trace/native. */

import { expect, it } from "vitest";
import { inSpan, type NativeTracing } from "../../src/core/spans.ts";

function recording({ isTraced = true, fails = false } = {}) {
  const log: unknown[] = [];
  const span = {
    isTraced,
    setAttribute: (key: string, value: unknown) => {
      if (fails) throw new Error("no more attributes");
      log.push([key, value]);
    },
    setStatus: (status: object) => log.push(status),
  };
  const tracing: NativeTracing = {
    enterSpan: (name, work) => {
      log.push(name);
      return work(span);
    },
  };
  return { log, tracing };
}

it("the work runs in a span, with its attributes and those that it learns", async () => {
  const { log, tracing } = recording();
  const work = async (span: { set(attributes: object): void }) => {
    span.set({ learned: 2, unknown: undefined });
    return "done";
  };
  expect(await inSpan("work", { given: 1, missing: undefined }, work, tracing)).toBe("done");
  expect(log).toEqual(["work", ["given", 1], ["learned", 2]]);
});

it("an error marks the span as failed, and is thrown", async () => {
  const { log, tracing } = recording();
  const failing = inSpan("work", {}, () => Promise.reject(new TypeError("no")), tracing);
  await expect(failing).rejects.toThrow("no");
  expect(log).toEqual(["work", ["error.type", "TypeError"], { code: "error" }]);
});

it("an untraced span gets no attributes", async () => {
  const { log, tracing } = recording({ isTraced: false });
  await inSpan("work", { given: 1 }, async (span) => span.fail("Error"), tracing);
  expect(log).toEqual(["work"]);
});

it("inside of an untraced span, no span is entered", async () => {
  const { log, tracing } = recording();
  const inside = { ...tracing, getActiveSpan: () => ({ isTraced: false }) };
  expect(await inSpan("work", { given: 1 }, async () => "done", inside)).toBe("done");
  expect(log).toEqual([]);
});

it("a span that takes no attributes does not fail the work, which runs once", async () => {
  const { tracing } = recording({ fails: true });
  let runs = 0;
  const work = async () => ++runs;
  expect(await inSpan("work", { given: 1 }, work, tracing)).toBe(1);
  expect(runs).toBe(1);
});

it.each([undefined, {}])("with the tracing %j the work runs without a span", async (tracing) => {
  expect(await inSpan("work", { given: 1 }, async () => "done", tracing)).toBe("done");
});
