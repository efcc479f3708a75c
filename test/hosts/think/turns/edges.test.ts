/** Turns of a Think agent that meet each other: what is rolled back, cleared, joined or overtaken, also over crashes. */

import { runInDurableObject } from "cloudflare:test";
import { describe, expect, it } from "vitest";
import { ask, type Script, ScriptedModel } from "../../../../src/testing/index.ts";
import { crash, message, until } from "../../../support/given.ts";
import { HeldModel, hold } from "../../../support/held-model.ts";
import { sleep } from "../../../support/ledger.ts";
import {
  type Agent,
  again,
  asked,
  ended,
  givenAgent,
  joined,
  recovered,
  running,
  submit,
  texts,
  wakeNow,
} from "../../../support/think.ts";
import { charges, type ThinkAgent } from "../../../support/think-agent.ts";

const THREADS = ["main", "side"] as const;
const INSTEAD = ["user: instead", "assistant: You said: instead"];
const rollback = { submissionId: "instead", whenBusy: "rollback" } as const;

/** The beginning of an answer that never comes to its end. */
function partial(): Script {
  return { first: "a partial answer", delayMs: 600_000, text: crypto.randomUUID() };
}

function charge(account: string = crypto.randomUUID()) {
  return { name: "charge", input: { account } };
}

describe("a rollback", () => {
  /** An agent that dies while it answers. Its turns are noted, and those of Think's recovery say the beginning of an answer, too. */
  async function givenInterrupted() {
    const triggers: string[] = [];
    const [live, goingOn] = [partial(), partial()];
    const agent = givenAgent({
      beforeTurn: ({ trigger = "" }) => {
        triggers.push(trigger);
        return trigger.startsWith("recovery-") ? { model: new ScriptedModel(goingOn) } : undefined;
      },
    });
    await submit(agent, live, { submissionId: "s" });
    await asked(live);
    await crash();
    return { next: again(agent), triggers, goingOn };
  }

  it("L5: a rollback leaves nothing of a turn that Think's recovery continues", async () => {
    const { next, triggers, goingOn } = await givenInterrupted();
    await next.listSubmissions();
    await asked(goingOn);
    expect(triggers).toEqual(["submission", expect.stringMatching(/^recovery-/)]);
    await running(next, "s");
    await submit(next, "instead", rollback);
    await ended(next, "instead");
    await recovered(next);
    expect(await ended(next, "s")).toMatchObject({ status: "aborted" });
    expect(await texts(next)).toEqual(INSTEAD);
  });

  it("L5: a rollback leaves nothing of an interrupted turn whose recovery has not begun", async () => {
    const { next, triggers } = await givenInterrupted();
    await submit(next, "instead", rollback);
    expect(triggers).toEqual(["submission"]);
    await ended(next, "instead");
    await recovered(next);
    expect(await ended(next, "s")).toMatchObject({ status: "aborted" });
    expect(await texts(next)).toEqual(INSTEAD);
  });

  it("L5: a rollback leaves nothing of a turn whose joined submission was cancelled", async () => {
    const agent = givenAgent();
    const { script, release } = hold({ tool: charge() });
    await submit(agent, script, { submissionId: "s" });
    await running(agent, "s");
    const joining = partial();
    await submit(agent, joining, { submissionId: "steer", whenBusy: "steer" });
    release();
    await joined(agent, "steer", "s");
    await asked(joining);
    await agent.cancelSubmission("steer");
    await running(agent, "s");
    await submit(agent, "instead", rollback);
    await ended(agent, "instead");
    expect(await texts(agent)).toEqual(INSTEAD);
  });
});

describe("a cancelled turn of a thread", () => {
  const side = { submissionId: "s", thread: "side" } as const;

  it("L5: a cancelled turn writes nothing into its thread after that was cleared", async () => {
    const agent = givenAgent();
    const script = partial();
    await submit(agent, script, side);
    await asked(script);
    await runInDurableObject<ThinkAgent, void>(agent, async (inside) => {
      await inside.cancelSubmission("s");
      await inside.clearThread("side");
    });
    // The next one runs when the cancelled one has come to its end.
    await submit(agent, "instead", { submissionId: "instead", thread: "side" });
    await ended(agent, "instead");
    expect(await texts(agent, "side")).toEqual(INSTEAD);
  });

  it("L5: a cancelled turn writes nothing after the next reply, even if its tool still runs", async () => {
    const account = crypto.randomUUID();
    let goOn: (() => void) | undefined;
    const agent = givenAgent({
      onTool: () =>
        new Promise<void>((resolve) => {
          goOn = resolve;
        }),
    });
    const script = { tool: charge(account), text: "never said" };
    await submit(agent, script, side);
    await until(() => goOn);
    await agent.cancelSubmission("s");
    await submit(agent, "instead", { submissionId: "instead", thread: "side" });
    expect(await ended(agent, "instead")).toMatchObject({ status: "completed" });
    const before = await texts(agent, "side");
    expect(before).toEqual([`user: ${ask(script)}`, "assistant: [tool-charge]", ...INSTEAD]);
    expect(charges.get(account)).toBeUndefined();
    await runInDurableObject(agent, () => goOn?.());
    await until(() => charges.get(account) === 1);
    await submit(agent, "later", { submissionId: "later", thread: "side" });
    await ended(agent, "later");
    expect(await texts(agent, "side")).toEqual([
      ...before,
      "user: later",
      "assistant: You said: later",
    ]);
    expect(await ended(agent, "s")).toMatchObject({ status: "aborted" });
  });
});

describe("messages that join a turn", () => {
  it.each(THREADS)(
    "L4: messages that join a turn are seen once by all its later steps (%s)",
    async (thread) => {
      const model = new HeldModel();
      const agent = givenAgent({ beforeTurn: () => ({ model }) });
      const { script, release } = hold({ tool: charge() });
      await submit(agent, script, { submissionId: "s", thread });
      await running(agent, "s");
      const joining = { tools: [charge(), charge()], text: `both, in ${thread}` };
      await submit(agent, joining, { submissionId: "steer", thread, whenBusy: "steer" });
      release();
      expect(await ended(agent, "steer")).toMatchObject({ status: "completed", mergedInto: "s" });
      const times = model
        .prompts()
        .map((prompt) => prompt.filter((line) => line === `user: ${ask(joining)}`).length);
      expect(times).toEqual([0, 1, 1, 1]);
      expect((await texts(agent, thread)).at(-1)).toContain(joining.text);
    },
  );

  it.each([1, 2])(
    "L4: messages that would join a turn interrupted by %d crash(es) get a turn of their own after it",
    async (crashes) => {
      let agent: Agent = givenAgent();
      const account = crypto.randomUUID();
      const { script, release } = hold({ tool: charge(account), text: "first" }, { passes: 1 });
      await submit(agent, script, { submissionId: "s" });
      // The model is at its second step, and from then on at the same one again.
      await asked(script, 2);
      for (let n = 1; n <= crashes; n++) {
        await crash();
        agent = again(agent);
        if (n === 1) await submit(agent, "more", { submissionId: "steer", whenBusy: "steer" });
        await agent.listSubmissions();
        await asked(script, 2 + n);
        expect(await agent.inspectSubmission("s")).toMatchObject({ status: "running" });
        expect(await agent.inspectSubmission("steer")).toMatchObject({ status: "pending" });
      }
      release();
      expect(await ended(agent, "s")).toMatchObject({ status: "completed", attempts: 1 });
      const steer = await ended(agent, "steer");
      expect(steer).toMatchObject({ status: "completed" });
      expect(steer).not.toHaveProperty("mergedInto");
      expect(await texts(agent)).toEqual([
        `user: ${ask(script)}`,
        "assistant: [tool-charge]first",
        "user: more",
        "assistant: You said: more",
      ]);
      expect(charges.get(account)).toBe(1);
    },
  );
});

describe("while a turn of the app's own runs", () => {
  /** An agent whose app has asked something itself, and waits for the answer. */
  async function givenBusy() {
    const agent = givenAgent();
    const { script, release } = hold({ text: crypto.randomUUID() });
    const own = runInDurableObject<ThinkAgent, unknown>(agent, (inside) =>
      inside.saveMessages([message(script)]),
    );
    await asked(script);
    return { agent, own, release, answer: `assistant: ${script.text}` };
  }

  it("L1: a repeated debounced submission is in the turn that waits", async () => {
    const { agent, own, release, answer } = await givenBusy();
    const debounce = { key: "k", delay: 1 } as const;
    const { submissionId } = await submit(agent, "old", { debounce });
    await sleep(5);
    await wakeNow(agent);
    const latest = await submit(agent, "new", { debounce });
    expect(latest).toMatchObject({ submissionId, accepted: true, status: "pending" });
    release();
    await own;
    await ended(agent, submissionId);
    expect((await texts(agent)).slice(1)).toEqual([
      answer,
      "user: new",
      "assistant: You said: new",
    ]);
  });

  it("L5: an interruption changes no submission that waits after it", async () => {
    const { agent, own, release, answer } = await givenBusy();
    await submit(agent, "waits", { submissionId: "waits" });
    await submit(agent, "urgent", { submissionId: "urgent", whenBusy: "interrupt" });
    expect(await agent.inspectSubmission("waits")).toMatchObject({ status: "pending" });
    release();
    await own;
    await ended(agent, "urgent");
    expect(await ended(agent, "waits")).toMatchObject({ status: "completed" });
    const replies = (await texts(agent)).filter((text) => text.startsWith("assistant"));
    expect(replies.toSorted()).toEqual(
      [answer, "assistant: You said: urgent", "assistant: You said: waits"].toSorted(),
    );
  });
});

describe("messages that join a turn and cannot be stored", () => {
  it.each(THREADS)(
    "L1: messages that could not join a turn get a turn of their own, which fails: %s",
    async (thread) => {
      const agent = givenAgent();
      const { script, release } = hold({ tool: charge() });
      await submit(agent, script, { submissionId: "s", thread });
      await running(agent, "s");
      await runInDurableObject<ThinkAgent, void>(agent, (inside) => {
        const session =
          thread === "main" ? inside.session : inside.sessions.session(`perdure:${thread}`);
        const append = session.appendMessage.bind(session);
        session.appendMessage = async () => {
          session.appendMessage = append;
          throw new Error("The disk is full");
        };
      });
      await submit(agent, "and this", { submissionId: "joins", thread, whenBusy: "steer" });
      release();
      expect(await ended(agent, "s")).toMatchObject({ status: "error", error: "The disk is full" });
      const own = await ended(agent, "joins");
      expect(own).toMatchObject({ status: "completed" });
      expect(own).not.toHaveProperty("mergedInto");
      const said = await texts(agent, thread);
      expect(said.slice(-2)).toEqual(["user: and this", "assistant: You said: and this"]);
    },
  );
});
