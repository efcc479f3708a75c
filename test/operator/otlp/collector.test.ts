/** When telemetry is sent, and what a wait for it does to other telemetry. */

import { expect, it, vi } from "vitest";
import { transientOf } from "../../../src/core/failures.ts";
import { collectors } from "../../../src/operator/otlp/collector.ts";
import { RefusedError } from "../../../src/outbox/errors.ts";

/** The attempts that a delivery has by default. */
const ATTEMPTS = 100;
const TEN_MINUTES = 600_000;

function given(isComplete: (now: number) => boolean) {
  let now = 0;
  const fetched = vi.spyOn(globalThis, "fetch").mockImplementation(async () => new Response("{}"));
  const adapter = collectors(async () => ({ body: {}, isComplete: isComplete(now) })).connect({
    env: {},
    now: () => now,
    allowPrivateAddresses: false,
    reportProblem: () => {},
  });
  const attempt = { createdAt: 0, isRepeated: false, markSending: async () => {} };
  const event = { signal: "traces", submissionId: "s" };
  const to = { kind: "otlp", url: "https://collector.example" } as const;
  const deliver = () =>
    adapter.deliver(to, { id: "t", attempt: 1, event }, AbortSignal.timeout(5_000), attempt);
  return { deliver, fetched, advance: (ms: number) => (now += ms), now: () => now };
}

/** Attempts until the request, each when the last one has asked for it. */
async function attemptsOf({ deliver, advance, now }: ReturnType<typeof given>): Promise<number> {
  for (let attempts = 1; attempts <= ATTEMPTS; attempts++) {
    const error = await deliver().then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    if (error === undefined) return attempts;
    // A refusal would hold the telemetry of other submissions as well.
    expect(error).not.toBeInstanceOf(RefusedError);
    advance(transientOf(error, now())?.retryAfterMs ?? 0);
  }
  return Number.POSITIVE_INFINITY;
}

it("telemetry whose deliveries still wait is sent after ten minutes, with few attempts, and holds no other", async () => {
  const waiting = given(() => false);
  expect(await attemptsOf(waiting)).toBeLessThan(20);
  expect(waiting.fetched).toHaveBeenCalledOnce();
  expect(waiting.now()).toBeGreaterThanOrEqual(TEN_MINUTES);
  expect(waiting.now()).toBeLessThan(2 * TEN_MINUTES);
});

it("telemetry is sent soon after the last delivery of its submission's end", async () => {
  const late = given((now) => now >= 60_000);
  await attemptsOf(late);
  expect(late.now()).toBeLessThan(100_000);
  const at = given(() => true);
  expect(await attemptsOf(at)).toBe(1);
  expect(at.now()).toBe(0);
});
