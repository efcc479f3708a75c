/** The outbox as part of DurableThink. */

import { describe, expect, it, vi } from "vitest";
import { capabilitiesOf } from "../../../src/hosts/public.ts";
import type { Problem } from "../../../src/hosts/think/index.ts";
import { type DeadLetter, method, webhook } from "../../../src/outbox/index.ts";
import { givenThink, message, refusal, until } from "../../support/given.ts";
import { receivedBy, receiverUrl, someReceiver } from "../../support/receivers/client.ts";
import { appHooks, deadLetters, thinkOptions } from "../../support/think-agent.ts";

describe("dead letters of a DurableThink", () => {
  it("O3: a dead letter is passed to onDeadLetter(), is listed, and can be redriven", async () => {
    const stub = givenThink();
    const name = stub.name ?? "";
    const notify = [method("onEnd", { policy: { maxAttempts: 1 } })];
    await stub.submitMessages([message("hello")], { submissionId: "s", notify });
    const letter = await until(() => deadLetters.get(name));
    expect(letter).toMatchObject({
      destination: { kind: "method", method: "onEnd" },
      event: { type: "submission.completed", data: { submissionId: "s", status: "completed" } },
      attempts: 1,
      lastError: expect.stringContaining("not today"),
    } satisfies Partial<Record<keyof DeadLetter, unknown>>);
    expect(await capabilitiesOf(stub).outbox.countDeadLetters()).toBe(1);
    const page = await capabilitiesOf(stub).outbox.listDeadLetters();
    expect(page.items.map(({ id }) => id)).toEqual([letter.id]);
    expect(await capabilitiesOf(stub).outbox.read(letter.id)).toEqual(letter.event);
    expect(await capabilitiesOf(stub).outbox.redrive(letter.id)).toBe(true);
    await until(async () => (await capabilitiesOf(stub).outbox.countDeadLetters()) === 1);
    expect(await capabilitiesOf(stub).outbox.redriveAll({ since: new Date(0) })).toBe(1);
    await until(async () => (await capabilitiesOf(stub).outbox.countDeadLetters()) === 1);
    expect(await capabilitiesOf(stub).outbox.deleteDeadLetter(letter.id)).toBe(true);
    expect(await capabilitiesOf(stub).outbox.countDeadLetters()).toBe(0);
  });

  it("O3 L7: problems are logged once with the agent's name, and an overridden onProblem() replaces the log", async () => {
    const lines: string[] = [];
    const note = (...parts: unknown[]) => void lines.push(parts.map(String).join(" "));
    const spies = (["error", "warn"] as const).map((log) =>
      vi.spyOn(console, log).mockImplementation(note),
    );
    const problems: Problem[] = [];
    const [loud, silent] = [givenThink(), givenThink()];
    appHooks.set(silent.name ?? "", { onProblem: (problem) => void problems.push(problem) });
    const notify = [method("onEnd", { policy: { maxAttempts: 1 } })];
    for (const stub of [loud, silent]) {
      const failing = message({ fail: `refused by ${stub.name}` });
      await stub.submitMessages([failing], { submissionId: "s", notify });
      await until(async () => (await capabilitiesOf(stub).outbox.countDeadLetters()) === 1);
    }
    await until(() => problems.length === 2);
    for (const spy of spies) spy.mockRestore();
    // No other line reports it: neither Think's nor the SDK's.
    const ofAgents = lines.filter((line) => line.includes("think-"));
    expect(ofAgents.map((line) => JSON.parse(line))).toMatchObject([
      { perdure: "submission:error", agent: "ThinkAgent", name: loud.name, submissionId: "s" },
      { perdure: "outbox:dead", name: loud.name, kind: "method", to: "onEnd()" },
    ]);
    expect(problems.map(({ type }) => type)).toEqual(["submission:error", "outbox:dead"]);
  });

  it("O3: endpoints can be inspected, and the outbox options apply", async () => {
    const name = `think-${crypto.randomUUID()}`;
    thinkOptions.set(name, { outbox: { allowPrivateAddresses: true } });
    const stub = givenThink(name);
    const me = someReceiver();
    const hook = webhook(receiverUrl(`/flaky/${me}/1?status=410`), { secret: "HOOK_SECRET" });
    await stub.submitMessages([message("hello")], { notify: [hook] });
    await until(async () => (await capabilitiesOf(stub).outbox.countDeadLetters()) === 1);
    expect((await capabilitiesOf(stub).outbox.listEndpoints()).items).toMatchObject([
      { url: hook.url, state: "disabled" },
    ]);
    expect(await capabilitiesOf(stub).outbox.enableEndpoint(hook.url)).toBe(1);
    await until(async () => (await receivedBy(me)).length === 2);
    await capabilitiesOf(stub).outbox.disableEndpoint(hook.url, "by hand");
    expect((await capabilitiesOf(stub).outbox.listEndpoints()).items).toMatchObject([
      { state: "disabled", reason: "by hand" },
    ]);
  });

  it("O3: an unknown destination is refused, and nothing is stored", async () => {
    const stub = givenThink();
    const wrong = await refusal(
      stub.submitMessages([message("hello")], { notify: [method("onNothing")] }),
    );
    expect(wrong).toMatchObject({
      name: "InvalidSubmissionError",
      message: expect.stringMatching(/Invalid notify\[0\]\.method "onNothing"/),
    });
    expect(await stub.listSubmissions()).toEqual([]);
  });
});
