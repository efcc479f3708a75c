/** What the ledger accepts on the light host: once by its key (L3), and nothing that it could not keep. */

import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { UIMessage } from "ai";
import { describe, expect, it } from "vitest";
import {
  IdempotencyConflictError,
  InvalidSubmissionError,
  SubmissionIdentityError,
} from "../../../src/submissions/errors.ts";
import { givenLedger, message } from "../../support/given.ts";
import { crashOne, expectState, release, somewhere, submit, within } from "../../support/ledger.ts";

const MEGABYTE = 1_000_000;

describe("L3: the same key is accepted once", () => {
  it("the first submission is returned, while it waits, runs and after it", async () => {
    const stub = givenLedger();
    const key = { idempotencyKey: "k" };
    const first = await submit(stub, { isHeld: true }, key);
    for (const status of ["running", "completed"] as const) {
      await expectState(stub, first.submissionId, status);
      const again = await submit(stub, { isHeld: true }, key);
      expect(again).toMatchObject({ submissionId: first.submissionId, accepted: false, status });
      expect(again).not.toHaveProperty("conflict");
      if (status === "running") await release(stub, first.submissionId);
    }
    expect(await stub.list()).toHaveLength(1);
    expect(await stub.conversation()).toHaveLength(2);
  });

  it("also of two that come at the same time, and after a crash", async () => {
    const stub = givenLedger();
    const both = await Promise.all([1, 2].map(() => submit(stub, "x", { idempotencyKey: "k" })));
    expect(both.map(({ accepted }) => accepted).sort()).toEqual([false, true]);
    expect(new Set(both.map(({ submissionId }) => submissionId)).size).toBe(1);
    const next = await crashOne(stub);
    expect(await submit(next, "x", { idempotencyKey: "k" })).toMatchObject({ accepted: false });
  });

  it.each([
    ["key", { idempotencyKey: "k" }],
    ["id", { submissionId: "s" }],
    ["pair of both", { idempotencyKey: "k", submissionId: "s" }],
  ])("a %s that is known with another payload is reported, or thrown", async (_, identity) => {
    const stub = givenLedger();
    const events: unknown[] = [];
    const listen = (event: unknown) => events.push(event);
    const { submissionId } = await submit(stub, "one", identity);
    subscribe("agents:message", listen);
    try {
      expect(await submit(stub, "one", identity)).not.toHaveProperty("conflict");
      expect(events).not.toContainEqual(expect.objectContaining({ type: "submission:conflict" }));
      const conflict = await submit(stub, "two", identity);
      expect(conflict).toMatchObject({ submissionId, accepted: false, conflict: true });
      expect(events).toContainEqual(
        expect.objectContaining({
          type: "submission:conflict",
          payload: expect.objectContaining({ submissionId }),
        }),
      );
    } finally {
      unsubscribe("agents:message", listen);
    }
    await within(stub, async ({ submissions }) => {
      const thrown = submissions.submit([message("two")], { ...identity, onConflict: "throw" });
      await expect(thrown).rejects.toThrow(IdempotencyConflictError);
      await expect(thrown).rejects.toMatchObject({ submissionId });
    });
    expect(await stub.list()).toHaveLength(1);
  });

  it("the same messages under it in another thread are another payload", async () => {
    const stub = givenLedger();
    const key = { idempotencyKey: "k" };
    const { submissionId } = await submit(stub, "x", { ...key, thread: "one" });
    expect(await submit(stub, "x", { ...key, thread: "one" })).not.toHaveProperty("conflict");
    expect(await submit(stub, "x", { ...key, thread: "two" })).toMatchObject({
      submissionId,
      accepted: false,
      conflict: true,
    });
  });

  it("an id and a key of two different submissions are refused", async () => {
    const stub = givenLedger();
    await submit(stub, "one", { submissionId: "s1", idempotencyKey: "k1" });
    await submit(stub, "two", { submissionId: "s2" });
    for (const [submissionId, idempotencyKey] of [
      ["s1", "new"],
      ["new", "k1"],
      ["s2", "k1"],
    ] as const) {
      await within(stub, async ({ submissions }) => {
        const refused = submissions.submit([message("one")], { submissionId, idempotencyKey });
        await expect(refused).rejects.toThrow(SubmissionIdentityError);
        await expect(refused).rejects.toMatchObject({ submissionId, idempotencyKey });
      });
    }
    expect(await stub.list()).toHaveLength(2);
  });

  it("W1: a failed prompt stays failed within its run, and is new work in the next", async () => {
    const stub = givenLedger();
    const answer = { schema: {} };
    const ask = (run: string) => submit(stub, { fail: "no" }, { idempotencyKey: "k", run, answer });
    const { submissionId } = await ask("run 1");
    await expectState(stub, submissionId, "error");
    expect(await ask("run 1")).toMatchObject({ submissionId, accepted: false, status: "error" });
    const second = await ask("run 2");
    expect(second).toMatchObject({ accepted: true, status: "pending" });
    expect(second.submissionId).not.toBe(submissionId);
    expect(await stub.inspect(submissionId)).not.toHaveProperty("idempotencyKey");
  });
});

describe("invalid arguments are refused with their names, and nothing is stored", () => {
  const ok = message("x");
  const cyclic: Record<string, unknown> = {};
  cyclic.self = cyclic;
  const big = (bytes: number) => [message("x".repeat(bytes))];

  it.each<[string, unknown, object, string, RegExp]>([
    ["no message", [], {}, "messages", /requires at least one message, got \[\]/],
    ["nothing", undefined, {}, "messages", /requires at least one message, got undefined/],
    ["a text", "hello", {}, "messages", /at least one message, got "hello"\. Pass \[message\]\.$/],
    ["one message", ok, {}, "messages", /got \{.*\}\. Pass \[message\]\./],
    ["a function", () => [ok], {}, "messages", /expected an array.*saveMessages/],
    [
      "null for a message",
      [ok, null],
      {},
      "messages",
      /Invalid messages\[1\] null: it is null; expected a UIMessage/,
    ],
    ["a text for a message", ["x"], {}, "messages", /Invalid messages\[0\] "x": it is string/],
    ["no id", [{ ...ok, id: undefined }], {}, "messages", /Invalid messages\[0\] .*: it has no id/],
    ["an empty id", [{ ...ok, id: "" }], {}, "messages", /Invalid messages\[0\] .*: it has no id/],
    [
      "another role",
      [{ ...ok, role: "tool" }],
      {},
      "messages",
      /has the role "tool" \(one of user, assistant\)/,
    ],
    [
      "the role system",
      [{ ...ok, role: "system" }],
      {},
      "messages",
      /it has the role "system".*getSystemPrompt\(\) or beforeTurn\(\)/,
    ],
    ...[null, "x", {}, { type: 5 }, { type: "text" }, { type: "text", text: 5 }].map(
      (part): [string, unknown, object, string, RegExp] => [
        `the part ${JSON.stringify(part)}`,
        [{ ...ok, parts: [...ok.parts, part] }],
        {},
        "messages",
        /it has the part .* at 1/,
      ],
    ),
    [
      "a file without a valid URL",
      [{ ...ok, parts: [{ type: "file", mediaType: "text/plain", url: "here" }] }],
      {},
      "messages",
      /it has the part .*"here".* at 0/,
    ],
    [
      "a number for a channel",
      [ok],
      { channel: 7 },
      "channel",
      /Invalid channel 7: expected a non-empty/,
    ],
    [
      "two megabytes of destinations",
      [ok],
      { notify: Array.from({ length: 20_000 }, somewhere) },
      "messages",
      /Invalid messages with metadata and destinations of \d+ bytes: expected at most 1900000 bytes/,
    ],
    ["no parts", [{ id: "1", role: "user", content: "x" }], {}, "messages", /has no parts/],
    [
      "a BigInt in a message",
      [{ ...ok, parts: [{ type: "data-x", data: 1n }] }],
      {},
      "messages",
      /JSON cannot hold it.*BigInt/,
    ],
    [
      "a circle in the metadata",
      [ok],
      { metadata: cyclic },
      "metadata",
      /Invalid metadata: JSON cannot hold it/,
    ],
    [
      "a number for a key",
      [ok],
      { idempotencyKey: 7 },
      "idempotencyKey",
      /Invalid idempotencyKey 7/,
    ],
    ["two megabytes of messages", big(2 * MEGABYTE), {}, "messages", /\d+ bytes.*at most 1900000/],
    [
      "two megabytes of four-byte characters",
      [message("😀".repeat(MEGABYTE / 2))],
      {},
      "messages",
      /bytes/,
    ],
    [
      "two megabytes of metadata",
      [ok],
      { metadata: { x: "x".repeat(2 * MEGABYTE) } },
      "messages",
      /bytes/,
    ],
    [
      "two megabytes of both",
      big(MEGABYTE),
      { metadata: { x: "x".repeat(MEGABYTE) } },
      "messages",
      /bytes/,
    ],
    [
      "two megabytes of key",
      [ok],
      { idempotencyKey: "x".repeat(2 * MEGABYTE) },
      "idempotencyKey",
      /bytes/,
    ],
    [
      "two megabytes of id",
      [ok],
      { submissionId: "x".repeat(2 * MEGABYTE) },
      "submissionId",
      /bytes/,
    ],
  ])("%s", async (_, messages, options, field, text) => {
    const stub = givenLedger();
    await within(stub, async ({ submissions }) => {
      const outcome = await submissions.submit(messages as UIMessage[], options).then(
        ({ status }) => status,
        (error: unknown) => error,
      );
      expect(outcome).toBeInstanceOf(InvalidSubmissionError);
      expect(outcome).toMatchObject({ field, message: expect.stringMatching(text) });
    });
    expect(await stub.list()).toHaveLength(0);
  });

  it("just under the limit it is accepted, and comes to its end", async () => {
    const stub = givenLedger();
    await within(stub, ({ submissions }) =>
      submissions.submit(big(1_899_000), { submissionId: "s" }),
    );
    await expectState(stub, "s", "completed");
  });
});
