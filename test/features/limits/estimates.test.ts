/** How many tokens a call may use. */

import fc from "fast-check";
import { expect, it } from "vitest";
import { Estimates, promptSizeOf } from "../../../src/features/limits/calls/estimates.ts";
import { promptOf } from "./support.ts";

const estimates = () => new Estimates(1_000);
const size = (bytes: number) => ({ bytes, fileTokens: 0 });

it("counts the bytes of the prompt, the tools and the schema", () => {
  const { bytes } = promptSizeOf(promptOf(1_000));
  expect(bytes).toBeGreaterThan(1_000);
  expect(bytes).toBeLessThan(1_100);
  const tools = [{ type: "function", name: "t", inputSchema: { description: "y".repeat(500) } }];
  expect(promptSizeOf(promptOf(1_000, { tools } as never)).bytes).toBeGreaterThan(bytes + 500);
  const prompt = [{ role: "user", content: [{ type: "text", text: "日本".repeat(100) }] }];
  expect(promptSizeOf({ prompt } as never).bytes).toBeGreaterThan(600);
});

it("counts a file by its kind, not by its bytes", () => {
  const file = (mediaType: string, data: unknown) =>
    promptSizeOf({
      prompt: [{ role: "user", content: [{ type: "file", mediaType, data }] }],
    } as never);
  expect(file("image/png", new Uint8Array(5_000_000))).toMatchObject({ fileTokens: 2_000 });
  expect(file("image/png", "a".repeat(1_000_000)).bytes).toBeLessThan(200);
  expect(file("application/pdf", { type: "data", data: "a".repeat(9_000) }).fileTokens).toBe(9_000);
  expect(file("application/pdf", new Uint8Array(9_000_000)).fileTokens).toBe(100_000);
  expect(file("application/pdf", { type: "url", url: "https://a" }).fileTokens).toBe(100_000);
});

it("takes the maximum of the call for the output, or the setting", () => {
  expect(estimates().output({ maxOutputTokens: 70 })).toBe(70);
  expect(estimates().output({})).toBe(1_000);
  for (const maxOutputTokens of [-1, 0, 1.5, Number.NaN, 1e300])
    expect(estimates().output({ maxOutputTokens })).toBe(1_000);
});

it("is never less than the model has reported for such a prompt, once it has", () => {
  const report = fc.record({
    bytes: fc.integer({ min: 200, max: 100_000 }),
    part: fc.double({ min: 0.05, max: 1, noNaN: true }),
  });
  fc.assert(
    fc.property(fc.array(report, { minLength: 1, maxLength: 20 }), (reports) => {
      const some = estimates();
      for (const { bytes, part } of reports) {
        const tokens = Math.floor(bytes * part);
        some.learn("m", size(bytes), tokens);
        expect(some.input("m", size(bytes))).toBeGreaterThanOrEqual(tokens);
      }
    }),
  );
});

it("comes closer to what a model reports again and again", () => {
  const some = estimates();
  const first = some.input("m", size(10_000));
  for (let n = 0; n < 40; n++) some.learn("m", size(10_000), 2_500);
  expect(first).toBeGreaterThan(4_000);
  expect(some.input("m", size(10_000))).toBeLessThan(3_000);
  expect(some.input("other", size(10_000))).toBe(first);
});

it("learns nothing from short prompts, files and nonsense", () => {
  const some = estimates();
  const first = some.input("m", size(10_000));
  some.learn("m", size(50), 1);
  some.learn("m", { bytes: 10_000, fileTokens: 2_000 }, 9_000);
  expect(some.input("m", size(10_000))).toBe(first);
  some.learn("m", size(10_000), 1e12);
  expect(some.input("m", size(10_000))).toBeLessThanOrEqual(10_050);
  some.learn("n", size(10_000), 0);
  expect(some.input("n", size(10_000))).toBeGreaterThan(1_000);
});
