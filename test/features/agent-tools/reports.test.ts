/** What is read from a child's stream, however it is cut. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { runIdOf, waitIdOf } from "../../../src/features/agent-tools/ends.ts";
import { type Report, reportsOf } from "../../../src/features/agent-tools/following.ts";
import { ANY_CHARACTER } from "../../support/characters.ts";

async function read(chunks: unknown[]): Promise<Report[]> {
  const stream = new ReadableStream<unknown>({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(chunk);
      controller.close();
    },
  });
  const reports: Report[] = [];
  for await (const report of reportsOf(stream)) reports.push(report);
  return reports;
}

const body = (type: string, data: object) => ({
  sequence: 0,
  body: JSON.stringify({ type, data }),
});
const lines = (chunks: object[]) => chunks.map((chunk) => `${JSON.stringify(chunk)}\n`).join("");

/** The text in pieces of bytes that end anywhere, also within a character. */
function cut(text: string, ends: number[]): Uint8Array[] {
  const bytes = new TextEncoder().encode(text);
  const borders = [...ends.map((end) => end % (bytes.length + 1)), 0, bytes.length];
  borders.sort((a, b) => a - b);
  return borders.slice(1).map((end, n) => bytes.slice(borders[n], end));
}

describe("the reports of a stream", () => {
  it("are its progress and its milestones, and nothing else", async () => {
    const chunks = [
      body("text-delta", { message: "no report" }),
      body("data-agent-progress", { message: "half", fraction: 0.5, phase: "middle" }),
      body("data-agent-milestone", { name: "first", sequence: 0, at: 1, data: { n: 1 } }),
      { sequence: 3, body: "no JSON" },
    ];
    const reports = [
      { message: "half", percent: 0.5, phase: "middle" },
      { milestone: "first", sequence: 0, data: { n: 1 } },
    ];
    expect(await read(cut(lines(chunks), []))).toEqual(reports);
    expect(await read(chunks)).toEqual(reports);
  });

  it("are the same wherever the bytes are cut", async () => {
    const messages = fc.array(fc.string({ unit: ANY_CHARACTER, maxLength: 8 }), { maxLength: 5 });
    await fc.assert(
      fc.asyncProperty(messages, fc.array(fc.nat(2_000)), async (texts, ends) => {
        const all = lines(texts.map((message) => body("data-agent-progress", { message })));
        expect(await read(cut(all, ends))).toEqual(
          texts.map((message) => ({ message: message.toWellFormed() })),
        );
      }),
    );
  });
});

it("the wait of a run is found by its id, and an app's own run has none", () => {
  const any = fc.tuple(fc.uuid(), fc.integer({ min: 1, max: 1_000 }));
  fc.assert(
    fc.property(any, ([waitId, dispatch]) => {
      expect(waitIdOf(runIdOf({ waitId, state: { dispatch } }))).toBe(waitId);
    }),
  );
  expect(waitIdOf("V1StGXR8_Z5j")).toBeUndefined();
});
