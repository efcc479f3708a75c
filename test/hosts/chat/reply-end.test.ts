/** How a reply without `durable()` has ended, by the chunks of its response. */

import { expect, it } from "vitest";
import { transientOf } from "../../../src/core/failures.ts";
import { ReplyEnd } from "../../../src/hosts/chat/reply-end.ts";
import { watchedResponse } from "../../../src/hosts/chat/reply-stream.ts";

const STEP = { type: "start-step" };
const STEPPED = { type: "finish-step" };
const OPEN = [
  { type: "text-start", id: "0" },
  { type: "text-delta", id: "0", delta: "half" },
];
const TEXT = [...OPEN, { type: "text-end", id: "0" }];
const CALL = { toolCallId: "a", toolName: "charge" };
const CALLED = [
  { ...CALL, type: "tool-input-start" },
  { ...CALL, type: "tool-input-available", input: {} },
];
const finish = (finishReason?: string) => ({ type: "finish", finishReason });

async function endOf(chunks: readonly object[], isEvents = true): Promise<ReplyEnd> {
  const text = chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join("");
  const headers = { "content-type": isEvents ? "text/event-stream" : "text/plain" };
  const end = new ReplyEnd();
  const watch = { onData: () => {}, end, hidesAnswer: false };
  expect(await watchedResponse(new Response(text, { headers }), watch).text()).toBe(text);
  return end;
}

it.each([
  ["a text", [STEP, ...TEXT, STEPPED, finish("stop")]],
  ["the call of a tool", [STEP, ...CALLED, STEPPED, finish("tool-calls")]],
  ["a limit", [STEP, ...OPEN, STEPPED, finish("length")]],
  ["another reason", [STEP, ...TEXT, STEPPED, finish("other")]],
  ["a finish without a reason", [...TEXT, finish()]],
  ["no finish, after a whole step", [STEP, ...TEXT, STEPPED]],
  ["no finish, after a whole text", TEXT],
  ["a call whose result comes in another reply", [STEP, ...CALLED, STEPPED]],
])("L7: a reply that ends with %s is not cut off", async (_, chunks) => {
  expect((await endOf(chunks)).problem).toBeUndefined();
});

it.each([
  ["within a step, without a finish", [STEP, ...TEXT]],
  ["within a text, without a finish", OPEN],
  ["within a text, for no reason", [STEP, ...OPEN, STEPPED, finish("other")]],
  ["with a connection that closed", [STEP, ...TEXT, STEPPED, finish("interrupted")]],
  ["with a timeout", [STEP, ...OPEN, { type: "abort", reason: "aborted due to timeout" }]],
])("L8: a reply that ends %s is cut off, and transient", async (_, chunks) => {
  const { problem } = await endOf(chunks);
  expect(problem).toBeInstanceOf(Error);
  expect(transientOf(problem, 0)).toBeDefined();
});

it.each([
  ["an error", [STEP, ...TEXT, STEPPED, finish("error")], "IncompleteReplyError"],
  ["an abort of the app", [STEP, ...OPEN, { type: "abort" }], "TurnError"],
  [
    "half of a call",
    [STEP, { ...CALL, type: "tool-input-start" }, STEPPED, finish("stop")],
    "MissingToolCallError",
  ],
  [
    "a call that is missing",
    [STEP, ...TEXT, STEPPED, finish("tool-calls")],
    "MissingToolCallError",
  ],
  [
    "a call that is missing in its last step",
    [STEP, ...CALLED, STEPPED, STEP, ...TEXT, STEPPED, finish("tool-calls")],
    "MissingToolCallError",
  ],
])("L7: a reply that ends with %s fails for good", async (_, chunks, name) => {
  const { problem } = await endOf(chunks);
  expect(problem).toMatchObject({ name });
  expect(transientOf(problem, 0)).toBeUndefined();
});

it("L2: a call of a tool is seen", async () => {
  expect((await endOf([STEP, ...TEXT, STEPPED, finish("stop")])).hasCalls).toBe(false);
  expect((await endOf([STEP, ...CALLED])).hasCalls).toBe(true);
});

it("a plain text does not show how it has ended", async () => {
  const end = await endOf([STEP, ...OPEN], false);
  expect(end).toMatchObject({ finishReason: undefined, problem: undefined });
});
