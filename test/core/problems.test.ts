/** What goes wrong is logged once, with ids and without content; or told to the app's hook instead. */

import { afterEach, describe, expect, it, vi } from "vitest";
import { because } from "../../src/core/failures.ts";
import { Outbox, type Problem, UndeliverableError, webhook } from "../../src/outbox/index.ts";
import { Submissions } from "../../src/submissions/submissions.ts";
import { givenLedger, until } from "../support/given.ts";
import { crashOne, givenLedgerWith, submit, within } from "../support/ledger.ts";
import { ledgerOptions } from "../support/objects/ledger-object.ts";
import type { OutboxScript } from "../support/objects/outbox-object.ts";
import {
  crashBox,
  givenOutbox,
  inside,
  putAll,
  wakeBox,
  workflowNamed,
} from "../support/outbox.ts";

afterEach(() => void vi.restoreAllMocks());

/** The lines that Perdure logs from now on, read. */
function logged(): Record<string, unknown>[] {
  const lines: Record<string, unknown>[] = [];
  const note = (line: unknown) => {
    const text = String(line);
    if (text.startsWith('{"perdure":')) lines.push(JSON.parse(text) as Record<string, unknown>);
  };
  vi.spyOn(console, "error").mockImplementation(note);
  vi.spyOn(console, "warn").mockImplementation(note);
  return lines;
}

const QUICK = { backoff: { base: 1, cap: 1 } } as const;

/** An outbox that tells its problems to the list. */
function givenProblems({ settings, ...script }: OutboxScript) {
  const problems: Problem[] = [];
  const onProblem = (problem: Problem) => void problems.push(problem);
  return { box: givenOutbox({ ...script, settings: { ...settings, onProblem } }), problems };
}

const HOOK = webhook("https://hooks.example/T00/secret-in-a-path", { secret: "S" });

describe("problems of the outbox", () => {
  it("O3: a dead letter is logged once, with ids and without its event, also after a restart", async () => {
    const lines = logged();
    const box = givenOutbox({
      deliver: () => {
        throw new UndeliverableError("never");
      },
    });
    await putAll(box, ["dead"], workflowNamed("w"), { card: "4242" });
    await until(() => lines.length > 0);
    await crashBox(box);
    await wakeBox(box);
    await inside(box, async ({ outbox }) => {
      expect(await outbox.countDeadLetters()).toBe(1);
    });
    expect(lines).toEqual([
      {
        perdure: "outbox:dead",
        message: "never",
        id: "dead",
        kind: "workflow",
        to: "W w",
        attempts: 1,
      },
    ]);
  });

  it("O3: a failing endpoint is reported once, and once when it recovers, by its host name alone", async () => {
    let times = 0;
    const { box, problems } = givenProblems({
      settings: { policy: QUICK },
      deliver: () => {
        if (++times <= 3) throw new Error("hooks.example answered 503");
      },
    });
    await putAll(box, ["e"], HOOK);
    await until(() => problems.length === 2);
    expect(times).toBe(4);
    expect(problems).toEqual([
      {
        type: "outbox:endpoint",
        level: "warn",
        message: "hooks.example answered 503",
        ids: { endpoint: "hooks.example", state: "failing" },
      },
      {
        type: "outbox:endpoint",
        level: "warn",
        message: "The endpoint has recovered",
        ids: { endpoint: "hooks.example", state: "healthy" },
      },
    ]);
    expect(JSON.stringify(problems)).not.toContain("secret-in-a-path");
  });

  it("O3: a failing endpoint is reported once more when its secret is invalid, and not again after a restart", async () => {
    const secret = "The webhook's secret S is not set; store it in base64";
    let times = 0;
    const { box, problems } = givenProblems({
      settings: { policy: QUICK },
      deliver: () => {
        if (++times <= 2) throw because(new Error("hooks.example answered 503"), "answered", 503);
        throw because(new Error(secret), "secret-missing", "S");
      },
    });
    await putAll(box, ["e"], HOOK);
    await until(() => times > 6);
    await crashBox(box);
    const before = times;
    await until(async () => {
      await wakeBox(box);
      return times > before + 2;
    });
    expect(problems.map(({ message }) => message)).toEqual(["hooks.example answered 503", secret]);
    await inside(box, async ({ outbox }) => {
      expect(await outbox.inspectEndpoint(HOOK.url)).toMatchObject({ reason: secret });
      await outbox.disableEndpoint(HOOK.url, "by hand");
    });
    await until(() => problems.some(({ type }) => type === "outbox:dead"));
    expect(problems.slice(2)).toMatchObject([
      { level: "error", message: "by hand", ids: { state: "disabled" } },
      { type: "outbox:dead", ids: { id: "e", kind: "webhook", to: "hooks.example" } },
    ]);
  });

  it("L9: a full outbox is reported once, however many events are refused", async () => {
    const { box, problems } = givenProblems({
      settings: { maxWaiting: 2 },
      deliver: () => new Promise(() => {}),
    });
    await putAll(box, ["a", "b"]);
    await expect(putAll(box, ["c"])).rejects.toThrow(/outbox is full/);
    await expect(putAll(box, ["d"])).rejects.toThrow(/outbox is full/);
    expect(problems).toMatchObject([
      {
        type: "outbox:full",
        level: "error",
        message: expect.stringContaining("raise maxWaiting"),
        ids: { waiting: 2, maxWaiting: 2 },
      },
    ]);
  });

  it("L9: an outbox that the end of a submission fills is reported, and says that the end is stored", async () => {
    const { box, problems } = givenProblems({
      settings: { maxWaiting: 1 },
      deliver: () => new Promise(() => {}),
    });
    await inside(box, async ({ lifecycle, outbox }, ctx) => {
      await lifecycle.start();
      ctx.storage.transactionSync(() => {
        for (const id of ["a", "b"]) outbox.enqueue(id, workflowNamed("plain"), "1");
      });
    });
    const message = "The outbox is full: 1 entries wait, and maxWaiting is 1. ";
    expect(problems).toMatchObject([
      { message: expect.stringMatching(`^${message}.*Ends of submissions are still stored\\.$`) },
    ]);
  });

  it("O3: a problem whose hook fails is logged, and the dead letter is reported too", async () => {
    const lines = logged();
    const deadLetters: string[] = [];
    const box = givenOutbox({
      settings: { onProblem: () => Promise.reject(new Error("no log")) },
      deliver: () => {
        throw new UndeliverableError("x".repeat(2_000));
      },
      onDeadLetter: ({ id }) => void deadLetters.push(id),
    });
    await putAll(box, ["dead"]);
    await until(() => deadLetters.length === 1 && lines.length === 1);
    expect(lines[0]).toMatchObject({ id: "dead" });
    expect(String(lines[0]?.message)).toHaveLength(500);
  });
});

describe("problems of the ledger", () => {
  it("L7: a submission that ends in an error is logged once, without its messages", async () => {
    const lines = logged();
    const stub = givenLedger();
    await submit(stub, { fail: "the model refused" }, { submissionId: "failed" });
    await submit(stub, {}, { submissionId: "fine" });
    await until(async () => (await stub.inspect("fine"))?.status === "completed");
    await (await crashOne(stub)).list();
    expect(lines).toEqual([
      {
        perdure: "submission:error",
        message: "the model refused",
        submissionId: "failed",
        thread: "main",
        attempts: 1,
        errorName: "Error",
      },
    ]);
  });

  it("L7: a hook replaces the log", async () => {
    const lines = logged();
    const problems: Problem[] = [];
    const stub = givenLedgerWith({});
    ledgerOptions.set(stub.name ?? "", { onProblem: (problem) => void problems.push(problem) });
    await submit(stub, { fail: "no" }, { submissionId: "s" });
    await until(() => problems.length > 0);
    expect(problems).toMatchObject([{ type: "submission:error", ids: { submissionId: "s" } }]);
    expect(lines).toEqual([]);
  });

  it("L7: a hook that is not a function is refused", async () => {
    const onProblem = "log" as never;
    const expected = 'Invalid onProblem "log": expected a function.';
    expect(() => new Outbox({ host: {}, env: {}, onProblem })).toThrow(expected);
    await within(givenLedger(), ({ outbox, turns }) => {
      expect(() => new Submissions(turns, outbox, { onProblem })).toThrow(expected);
    });
  });
});
