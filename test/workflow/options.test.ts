/** What steps make of values by the app's schemas. */

import { afterEach, expect, it, vi } from "vitest";
import { z } from "zod";
import { outputOf } from "../../src/workflow/options.ts";

afterEach(() => {
  vi.useRealTimers();
});

it("W2: a schema that never returns a result is a failure after 30 seconds", async () => {
  vi.useFakeTimers();
  const hanging = z.string().refine(() => new Promise<boolean>(() => {}));
  const output = outputOf(hanging, "a", (cause) => cause as Error).catch((error: Error) => error);
  await vi.advanceTimersByTimeAsync(29_000);
  expect(await Promise.race([output, "open"])).toBe("open");
  await vi.advanceTimersByTimeAsync(2_000);
  expect(await output).toMatchObject({
    message: "The schema has returned no result within 30 seconds",
  });
});
