/** Following submissions, threads and approvals, for every host: what is said so far, then live, and again after a crash. */

import { readUIMessageStream, type UIMessage, type UIMessageChunk } from "ai";
import { expect, it } from "vitest";
import { capabilitiesOf } from "../../src/hosts/public.ts";
import { type FollowEvent, readFollowed } from "../../src/streams/events.ts";
import { modelCalls } from "../../src/testing/index.ts";
import { message, refusal, until } from "../support/given.ts";
import { type ContractHost, Given, supports } from "./host.ts";

const unique = () => ({ id: crypto.randomUUID() });
const TEXT = Array.from({ length: 12 }, (_, i) => `word${i} `).join("");

/** Reads events until one of them matches, or to the end. */
async function read(
  stream: ReadableStream<Uint8Array> | null,
  isLast: (event: FollowEvent, all: readonly FollowEvent[]) => boolean = () => false,
): Promise<FollowEvent[]> {
  const events: FollowEvent[] = [];
  if (!stream) return events;
  for await (const event of readFollowed(stream)) {
    events.push(event);
    if (isLast(event, events)) break;
  }
  return events;
}

const kindsOf = (events: readonly FollowEvent[]) =>
  events.map((event) => (event.type === "status" ? event.submission.status : event.type));

const textOf = (message: UIMessage | undefined) =>
  (message?.parts ?? []).map((part) => (part.type === "text" ? part.text : "")).join("");

/** What the parts of a reply make: those since it began anew the last time. */
async function said(events: readonly FollowEvent[]): Promise<string> {
  let chunks: UIMessageChunk[] = [];
  let base: UIMessage | undefined;
  for (const event of events) {
    if (event.type !== "reply") continue;
    if (event.from === 0) {
      chunks = [];
      base = event.base;
    }
    expect(event.from).toBe(chunks.length);
    chunks.push(...event.chunks);
  }
  const stream = new ReadableStream<UIMessageChunk>({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(chunk);
      controller.close();
    },
  });
  let last: UIMessage | undefined = base;
  for await (const made of readUIMessageStream({ stream, ...(base && { message: base }) }))
    last = made;
  return textOf(last);
}

export function streamsContract(host: ContractHost): void {
  const given = () => new Given(host);
  const slow = () => message({ ...unique(), text: TEXT, wordMs: 60 });

  it.each(["main", "side", "isolated"])(
    "a follower of a turn in %s gets what it says while it says it, and its end",
    async (thread) => {
      const verbs = await given().verbs();
      const { submissionId } = await verbs.submitMessages([slow()], { thread });
      const events = await read(await verbs.followSubmission(submissionId));
      expect(kindsOf(events)[0]).toMatch(/pending|running/);
      expect(kindsOf(events).slice(-3)).toEqual(["completed", "message", "end"]);
      const parts = events.filter(({ type }) => type === "reply");
      expect(parts.length).toBeGreaterThan(2);
      expect(await said(events)).toBe(TEXT);
      const whole = events.find((event) => event.type === "message");
      expect(whole?.type === "message" && textOf(whole.message)).toBe(TEXT);
      // Its ended turn is told once more to one who comes later.
      const later = await read(await verbs.followSubmission(submissionId));
      expect(kindsOf(later).slice(-3)).toEqual(["completed", "message", "end"]);
    },
  );

  it("a follower that was cut off goes on after its last event", async () => {
    const verbs = await given().verbs();
    const { submissionId } = await verbs.submitMessages([slow()]);
    const parts = (all: readonly FollowEvent[]) => all.filter(({ type }) => type === "reply");
    const first = await read(
      await verbs.followSubmission(submissionId),
      (_, all) => parts(all).length === 2,
    );
    const { id: from } = first.at(-1) ?? { id: "" };
    const rest = await read(await verbs.followSubmission(submissionId, { from }));
    expect(await said([...first, ...rest])).toBe(TEXT);
    const [next] = parts(rest);
    expect(next?.type === "reply" && next.from).toBeGreaterThan(0);
  });

  it("two followers get the same, and a late one all that was said", async () => {
    const verbs = await given().verbs();
    const { submissionId } = await verbs.submitMessages([slow()]);
    const one = read(await verbs.followSubmission(submissionId));
    await new Promise((resolve) => setTimeout(resolve, 250));
    const two = read(await verbs.followSubmission(submissionId));
    expect(await said(await one)).toBe(TEXT);
    expect(await said(await two)).toBe(TEXT);
  });

  it("a follower gets the whole reply although the object crashes meanwhile", async () => {
    const agent = given();
    const verbs = await agent.verbs();
    const { submissionId } = await verbs.submitMessages([slow()]);
    const stream = await verbs.followSubmission(submissionId);
    const cut: FollowEvent[] = [];
    const reading = (async () => {
      if (stream) for await (const event of readFollowed(stream)) cut.push(event);
    })().catch(() => {});
    await until(() => cut.some(({ type }) => type === "reply"));
    await agent.crash();
    await reading;
    expect(cut.at(-1)?.type).not.toBe("end");
    const { id: from } = cut.at(-1) ?? { id: "" };
    const rest = await read(await (await agent.verbs()).followSubmission(submissionId, { from }));
    expect(kindsOf(rest).slice(-3)).toEqual(["completed", "message", "end"]);
    const whole = rest.find((event) => event.type === "message");
    const text = whole?.type === "message" && textOf(whole.message);
    expect(text).toContain("word11");
    expect(await said(rest)).toBe(text);
  });

  it.each([
    ["cancelled", "aborted"],
    ["cleared", "aborted"],
  ])("a follower of a turn that is %s gets the end", async (how, status) => {
    const agent = given();
    const verbs = await agent.verbs();
    const script = { ...unique(), delayMs: 60_000 };
    const { submissionId } = await verbs.submitMessages([message(script)], { thread: "side" });
    const following = read(await verbs.followSubmission(submissionId));
    await until(() => modelCalls.get(JSON.stringify(script)));
    if (how === "cancelled") await verbs.cancelSubmission(submissionId);
    else await verbs.clearThread("side");
    expect(kindsOf(await following).slice(-2)).toEqual([status, "end"]);
  });

  it("a follower of a failed turn gets its error", async () => {
    const verbs = await given().verbs();
    const script = { ...unique(), fail: "The model refuses", status: 400 };
    const { submissionId } = await verbs.submitMessages([message(script)]);
    const events = await read(await verbs.followSubmission(submissionId));
    expect(kindsOf(events).slice(-2)).toEqual(["error", "end"]);
  });

  it("a follower of a thread gets its open and later submissions", async () => {
    const verbs = await given().verbs();
    const one = await verbs.submitMessages([slow()], { thread: "side" });
    const stream = await verbs.followThread("side");
    const two = await verbs.submitMessages([slow()], { thread: "side" });
    await verbs.submitMessages([slow()], { thread: "other" });
    const isDone = (event: FollowEvent) =>
      event.type === "message" && event.submissionId === two.submissionId;
    const events = await read(stream, isDone);
    const ids = new Set(
      events.flatMap((event) => (event.type === "status" ? [event.submission.submissionId] : [])),
    );
    expect([...ids]).toEqual([one.submissionId, two.submissionId]);
    for (const { submissionId } of [one, two]) {
      const own = events.filter(
        (event) => "submissionId" in event && event.submissionId === submissionId,
      );
      expect(await said(own)).toBe(TEXT);
    }
  });

  it.each(["loses its connection", "sees a crash"])(
    "a follower of a thread that %s gets each end that it missed, once and in order",
    async (how) => {
      const agent = given();
      const verbs = await agent.verbs();
      const submitted = [];
      for (let i = 0; i < 3; i++)
        submitted.push(await verbs.submitMessages([slow()], { thread: "side" }));
      const ids = submitted.map(({ submissionId }) => submissionId);
      const stream = await verbs.followThread("side");
      const first: FollowEvent[] = [];
      const reading = (async () => {
        for await (const event of readFollowed(stream)) {
          first.push(event);
          if (how === "loses its connection" && event.type === "reply") break;
        }
      })().catch(() => {});
      await until(() => first.some(({ type }) => type === "reply"));
      if (how === "sees a crash") await agent.crash();
      await reading;
      for (const id of ids) await agent.ended(id);
      const { id: from } = first.at(-1) ?? { id: "" };
      const isLast = (event: FollowEvent) =>
        event.type === "message" && event.submissionId === ids[2];
      const rest = await read(await (await agent.verbs()).followThread("side", { from }), isLast);
      const ends = rest.filter(({ type }) => type !== "reply");
      expect(kindsOf(ends)).toEqual(ids.flatMap(() => ["completed", "message"]));
      expect(
        ends.map((event) => (event.type === "status" ? event.submission : event)),
      ).toMatchObject(ids.flatMap((submissionId) => [{ submissionId }, { submissionId }]));
      // After the last event nothing comes again, and a later submission comes.
      const { id: last } = rest.at(-1) ?? { id: "" };
      const later = await (await agent.verbs()).followThread("side", { from: last });
      const { submissionId } = await (await agent.verbs()).submitMessages([slow()], {
        thread: "side",
      });
      const [next] = await read(later, () => true);
      expect(next?.type === "status" && next.submission.submissionId).toBe(submissionId);
    },
  );

  it("a follower of an idle thread gets the end that it missed", async () => {
    const agent = given();
    const verbs = await agent.verbs();
    const [{ id: from, type } = { id: "" }] = await read(
      await verbs.followThread("side"),
      () => true,
    );
    expect(type).toBe("reset");
    const { submissionId } = await verbs.submitMessages([slow()], { thread: "side" });
    await agent.ended(submissionId);
    const isLast = (event: FollowEvent) => event.type === "message";
    const missed = await read(await verbs.followThread("side", { from }), isLast);
    expect(kindsOf(missed).filter((kind) => kind !== "reply")).toEqual(["completed", "message"]);
  });

  it("a follower of a thread that connects again is sent nothing again", async () => {
    const verbs = await given().verbs();
    for (let i = 0; i < 2; i++) await verbs.submitMessages([slow()], { thread: "side" });
    const found: FollowEvent[] = [];
    const texts = () => found.filter(({ type }) => type === "message").length;
    while (texts() < 2) {
      const last = found.at(-1);
      const stream = await verbs.followThread("side", last ? { from: last.id } : {});
      found.push(...(await read(stream, () => true)));
    }
    expect(new Set(found.map(({ id }) => id)).size).toBe(found.length);
    expect(kindsOf(found).filter((kind) => kind !== "reply" && kind !== "pending")).toEqual([
      "reset",
      "running",
      "completed",
      "message",
      "running",
      "completed",
      "message",
    ]);
  });

  it.runIf(supports(host, "step.approval()"))(
    "a follower of an approval gets its decision",
    async () => {
      const agent = given();
      const verbs = await agent.verbs();
      await verbs.runWorkflow(host.workflow, { step: "approval" }, unique());
      const {
        items: [asked],
      } = await until(async () => {
        const found = await capabilitiesOf(verbs).approvals.list();
        return found.items.length > 0 && found;
      });
      const { approvalId = "" } = asked ?? {};
      const following = read(await verbs.followApproval(approvalId));
      await capabilitiesOf(verbs).approvals.grant(approvalId, { payload: { amount: 5 } });
      const statuses = (await following).map((event) =>
        event.type === "approval" ? event.approval.status : event.type,
      );
      expect(statuses).toEqual(["pending", "approved", "end"]);
      expect(await verbs.followApproval("unknown")).toBeNull();
    },
  );

  it("refuses what cannot be followed", async () => {
    const verbs = await given().verbs();
    expect(await verbs.followSubmission("unknown")).toBeNull();
    const bad = verbs.followThread("side", { from: "x".repeat(2_000) });
    expect((await refusal(bad)).name).toBe("InvalidFollowError");
    for (const unnamed of [7, "", undefined, "\ud800"] as string[]) {
      for (const call of [() => verbs.followThread(unnamed), () => verbs.threadMessages(unnamed)])
        expect((await refusal(call())).name).toBe("InvalidSubmissionError");
    }
  });

  it("following writes no rows", async () => {
    const agent = given();
    const verbs = await agent.verbs();
    await verbs.submissionStats();
    const rowsOf = (work: () => Promise<unknown>) =>
      agent.counted(work).then(({ rowsWritten }) => rowsWritten);
    const run = async (isFollowed: boolean) => {
      const asked = [message({ ...unique(), text: "counted" })];
      const { submissionId } = await verbs.submitMessages(asked, { thread: "isolated" });
      if (isFollowed) await read(await verbs.followSubmission(submissionId));
      else await agent.ended(submissionId);
    };
    await run(false);
    const alone = await rowsOf(() => run(false));
    expect(await rowsOf(() => run(true))).toBe(alone);
  });
}
