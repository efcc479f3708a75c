/** Followers of submissions, threads and approvals: from the start, live, and again after a cut or a crash. */

import { readUIMessageStream, type UIMessage, type UIMessageChunk } from "ai";
import { type FollowEvent, readFollowed } from "perdure/streams";
import { expect, it } from "vitest";
import { type GivenAgent, givenAgent, refusal, until } from "../app/given.ts";
import { Hold } from "../app/hold.ts";
import type { Host, Verbs } from "../app/hosts.ts";
import { joinTexts } from "../app/messages.ts";

const TEXT = Array.from({ length: 12 }, (_, index) => `word${index} `).join("");

/** A reply that stops after its first word. */
function givenReply() {
  const hold = new Hold({ at: "reply" });
  return { hold, script: { id: hold.id, text: TEXT, wordMs: 0 } };
}

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

const isReply = ({ type }: FollowEvent) => type === "reply";

/** The status of a status event, the type of another one. */
const listKinds = (events: readonly FollowEvent[]) =>
  events.map((event) => (event.type === "status" ? event.submission.status : event.type));

/** The kinds of the events that a client sees once per turn. */
const listEnds = (events: readonly FollowEvent[]) =>
  listKinds(events).filter((kind) => kind !== "reply" && kind !== "pending" && kind !== "running");

/** Joins the parts of a reply since its last new start. */
async function joinReply(events: readonly FollowEvent[]): Promise<string> {
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
  let last = base;
  for await (const message of readUIMessageStream({ stream, ...(base && { message: base }) }))
    last = message;
  return joinTexts(last?.parts ?? []);
}

/** Follows until the connection breaks, as it does in a crash. */
function followUntilCut(stream: ReadableStream<Uint8Array> | null) {
  const events: FollowEvent[] = [];
  const reading = (async () => {
    if (stream) for await (const event of readFollowed(stream)) events.push(event);
  })();
  // A connection that breaks is the case that is tested.
  return { events, cut: reading.catch(() => {}) };
}

const readMessage = (events: readonly FollowEvent[]) => {
  const whole = events.find((event) => event.type === "message");
  return whole?.type === "message" ? joinTexts(whole.message.parts) : undefined;
};

export function followersContract(host: Host): void {
  const given = () => givenAgent(host);

  it.each(["main", "side", "isolated"])(
    "L7: a follower of a turn in %s gets the reply while it is written, and the end",
    async (thread) => {
      const agent = given();
      const { hold, script } = givenReply();
      const submissionId = await agent.submit(script, { thread });
      const stream = await (await agent.verbs()).followSubmission(submissionId);
      const { events, cut } = followUntilCut(stream);
      await until(() => events.some(isReply));
      hold.release();
      await cut;
      expect(listKinds(events).slice(-3)).toEqual(["completed", "message", "end"]);
      expect(await joinReply(events)).toBe(TEXT);
      expect(readMessage(events)).toBe(TEXT);
      const late = await read(await (await agent.verbs()).followSubmission(submissionId));
      expect(listKinds(late).slice(-3)).toEqual(["completed", "message", "end"]);
    },
  );

  it("L7: a follower that connects again with `from` gets the rest, and a second one all of it", async () => {
    const agent = given();
    const { hold, script } = givenReply();
    const submissionId = await agent.submit(script);
    const verbs = await agent.verbs();
    const first = await read(await verbs.followSubmission(submissionId), isReply);
    const { id: from } = first.at(-1) ?? { id: "" };
    const second = read(await verbs.followSubmission(submissionId));
    const rest = read(await verbs.followSubmission(submissionId, { from }));
    hold.release();
    expect(await joinReply([...first, ...(await rest)])).toBe(TEXT);
    const next = (await rest).find(isReply);
    expect(next?.type === "reply" && next.from).toBeGreaterThan(0);
    expect(await joinReply(await second)).toBe(TEXT);
  });

  it("L7: a follower gets the whole reply although the object crashes meanwhile", async () => {
    const agent = given();
    const { hold, script } = givenReply();
    const submissionId = await agent.submit(script);
    const { events, cut } = followUntilCut(
      await (await agent.verbs()).followSubmission(submissionId),
    );
    await until(() => events.some(isReply));
    await agent.crash();
    await cut;
    expect(events.at(-1)?.type).not.toBe("end");
    hold.release();
    const { id: from } = events.at(-1) ?? { id: "" };
    const rest = await read(await (await agent.verbs()).followSubmission(submissionId, { from }));
    expect(listKinds(rest).slice(-3)).toEqual(["completed", "message", "end"]);
    const text = readMessage(rest);
    expect(text).toContain("word11");
    expect(await joinReply(rest)).toBe(text);
  });

  it.each(["cancelSubmission", "clearThread"] as const)(
    "L5: a follower of a turn that %s() ends gets the end",
    async (verb) => {
      const agent = given();
      const verbs = await agent.verbs();
      const hold = new Hold();
      const submissionId = await agent.submit({ id: hold.id }, { thread: "side" });
      const following = read(await verbs.followSubmission(submissionId));
      await until(() => hold.arrived > 0);
      if (verb === "cancelSubmission") await verbs.cancelSubmission(submissionId);
      else await verbs.clearThread("side");
      expect(listKinds(await following).slice(-2)).toEqual(["aborted", "end"]);
    },
  );

  it("L7: a follower of a failed turn gets its end", async () => {
    const agent = given();
    const submissionId = await agent.submit({ fail: "The model refuses", status: 400 });
    const events = await read(await (await agent.verbs()).followSubmission(submissionId));
    expect(listKinds(events).slice(-2)).toEqual(["error", "end"]);
  });

  it("L4: a follower of a thread gets its open and later submissions, and none of another thread", async () => {
    const agent = given();
    const { hold, script } = givenReply();
    const side = { thread: "side" };
    const one = await agent.submit(script, side);
    const stream = await (await agent.verbs()).followThread("side");
    const two = await agent.submit("two", side);
    await agent.submit("three", { thread: "other" });
    hold.release();
    const events = await read(
      stream,
      (event) => event.type === "message" && event.submissionId === two,
    );
    const ids = events.flatMap((event) =>
      event.type === "status" ? [event.submission.submissionId] : [],
    );
    expect([...new Set(ids)]).toEqual([one, two]);
    const replies = events.filter((event) => "submissionId" in event && event.submissionId === one);
    expect(await joinReply(replies)).toBe(TEXT);
  });

  it.each(["connection", "object"])(
    "L4 L7: a follower of a thread that loses its %s gets each end that it missed, once and in order",
    async (lost) => {
      const agent = given();
      const { hold, script } = givenReply();
      const side = { thread: "side" };
      const ids = [
        await agent.submit(script, side),
        await agent.submit("two", side),
        await agent.submit("three", side),
      ];
      const stream = await (await agent.verbs()).followThread("side");
      const first =
        lost === "connection" ? await read(stream, isReply) : await cutAtReply(agent, stream);
      hold.release();
      for (const id of ids) await agent.untilEnded(id);
      const { id: from } = first.at(-1) ?? { id: "" };
      const rest = await read(
        await (await agent.verbs()).followThread("side", { from }),
        (event) => event.type === "message" && event.submissionId === ids[2],
      );
      expect(listEnds(rest)).toEqual(ids.flatMap(() => ["completed", "message"]));
      expect(
        rest.flatMap((event) => (event.type === "message" ? [event.submissionId] : [])),
      ).toEqual(ids);
      const { id: last } = rest.at(-1) ?? { id: "" };
      const later = await (await agent.verbs()).followThread("side", { from: last });
      const next = await agent.submit("four", side);
      const [event] = await read(later, () => true);
      expect(event?.type === "status" && event.submission.submissionId).toBe(next);
    },
  );

  it("L7: a follower of an idle thread gets the end that it missed", async () => {
    const agent = given();
    const [reset] = await read(await (await agent.verbs()).followThread("side"), () => true);
    expect(reset?.type).toBe("reset");
    await agent.untilEnded(await agent.submit("one", { thread: "side" }));
    const again = await (await agent.verbs()).followThread("side", { from: reset?.id ?? "" });
    const missed = await read(again, ({ type }) => type === "message");
    expect(listEnds(missed)).toEqual(["completed", "message"]);
  });

  it("W1: a follower of an approval gets its decision", async () => {
    const agent = given();
    await agent.start({ step: "approval" });
    const { approvals } = await agent.capabilities();
    const [approval] = await until(async () => {
      const { items } = await approvals.list();
      return items.length > 0 && items;
    });
    const verbs = await agent.verbs();
    const following = read(await verbs.followApproval(approval?.approvalId ?? ""));
    await approvals.grant(approval?.approvalId ?? "", { payload: { amount: 5 } });
    const statuses = (await following).map((event) =>
      event.type === "approval" ? event.approval.status : event.type,
    );
    expect(statuses).toEqual(["pending", "approved", "end"]);
    expect(await verbs.followApproval("unknown")).toBeNull();
  });

  it("L9: an unknown submission and an invalid position or thread are refused", async () => {
    const verbs = await given().verbs();
    expect(await verbs.followSubmission("unknown")).toBeNull();
    const invalid = verbs.followThread("side", { from: "x".repeat(2_000) });
    expect((await refusal(invalid)).name).toBe("InvalidFollowError");
    for (const thread of [7, "", undefined, "\ud800"] as string[])
      for (const call of [
        (verbs: Verbs) => verbs.followThread(thread),
        (verbs: Verbs) => verbs.threadMessages(thread),
      ])
        expect((await refusal(call(verbs))).name).toBe("InvalidSubmissionError");
  });
}

/** Follows up to the first part of a reply, at which the object crashes. */
async function cutAtReply(
  agent: GivenAgent,
  stream: ReadableStream<Uint8Array>,
): Promise<readonly FollowEvent[]> {
  const { events, cut } = followUntilCut(stream);
  await until(() => events.some(isReply));
  await agent.crash();
  await cut;
  return events;
}
