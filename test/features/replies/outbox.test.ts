/** Replies through the outbox: which attempts are repeated, which are not, and what a rate limit holds. */

import { describe, expect, it } from "vitest";
import { discord, replies, slack, telegram } from "../../../src/features/replies/index.ts";
import type { DeadLetter, Destination } from "../../../src/outbox/index.ts";
import { givenLedger, until } from "../../support/given.ts";
import { forever, sleep, submit, within } from "../../support/ledger.ts";
import { Recorder, type Statement } from "../../support/ledger-scale.ts";
import { births } from "../../support/objects/ledger-object.ts";
import type { OutboxScript } from "../../support/objects/outbox-object.ts";
import { type Box, crashBox, givenOutbox, inside, putAll, wakeBox } from "../../support/outbox.ts";
import { HANG_MS } from "../../support/sizes.ts";
import { type Answer, type Asked, givenProvider } from "./fake-provider.ts";
import { apisAt, DONE, INTERACTION, SECRETS, TO, TOKEN } from "./kinds.ts";

const OTHER = slack("C0000000000", { token: "TOKEN" });
const MAY_HAVE_ARRIVED =
  /It may have been delivered: check that, then send it again with outbox\.redrive\(id\)/;
const QUICK = { backoff: { base: 1, cap: 1 } };

type Options = Omit<OutboxScript, "deliver" | "apis">;

/** An outbox whose replies go to a provider that answers as planned. */
function givenReplies(
  plan: (asked: Asked, nth: number) => Answer | Promise<Answer>,
  { settings, env = SECRETS, ...script }: Options = {},
) {
  const { url, asked } = givenProvider(plan);
  const letters: DeadLetter[] = [];
  const box = givenOutbox({
    ...script,
    env,
    deliver: () => {},
    onDeadLetter: (letter) => void letters.push(letter),
    apis: apisAt(url),
    settings: { policy: QUICK, ...settings },
  });
  return { box, asked, letters };
}

const put = (box: Box, to: Destination, ...ids: string[]) => putAll(box, ids, to, { text: "done" });
const stateOf = (box: Box, id: string) => inside(box, ({ outbox }) => outbox.inspect(id));
const isEmpty = (box: Box) =>
  until(() => inside(box, async ({ outbox }) => (await outbox.stats()).waiting === 0));

/** Wakes it until the entry has this state. */
async function comesTo(box: Box, id: string, state: "dead" | undefined): Promise<void> {
  await until(async () => {
    if ((await stateOf(box, id))?.state === state) return true;
    await wakeBox(box);
    return false;
  });
}

describe("A reply that the provider has taken", () => {
  it.each(["slack", "discord", "interaction", "telegram", "github"] as const)(
    "O2: %s is sent once",
    async (name) => {
      const { box, asked } = givenReplies(() => DONE[name]);
      await put(box, TO[name], "a");
      await isEmpty(box);
      expect(asked).toHaveLength(1);
    },
  );

  it("O2: an e-mail is sent once, by the binding", async () => {
    const sent: unknown[] = [];
    const EMAIL = { send: async (message: unknown) => void sent.push(message) };
    const { box } = givenReplies(() => "lost", { env: { EMAIL } });
    await put(box, TO.email, "a");
    await isEmpty(box);
    expect(sent).toHaveLength(1);
  });

  it("O2: a reply writes one row and one statement more than another delivery", async () => {
    const { box } = givenReplies(() => DONE.slack);
    const costOf = async (to: Destination) => {
      const statements = await inside(box, async ({ lifecycle, outbox, meter }) => {
        await lifecycle.start();
        return new Recorder(meter).during(async () => {
          outbox.put(to, "done", { id: crypto.randomUUID() });
          await until(async () => (await outbox.stats()).waiting === 0);
        });
      });
      const about = statements.filter(({ query }: Statement) =>
        /^(INSERT INTO|UPDATE|DELETE FROM) perdure_outbox\b/.test(query),
      );
      return {
        statements: about.length,
        rows: about.reduce((sum, one) => sum + one.rowsWritten, 0),
      };
    };
    // The first one writes what the start of an object writes.
    await costOf({ kind: "queue", queue: "Q" });
    expect(await costOf({ kind: "queue", queue: "Q" })).toEqual({ statements: 2, rows: 2 });
    expect(await costOf(TO.interaction)).toEqual({ statements: 2, rows: 2 });
    expect(await costOf(TO.slack)).toEqual({ statements: 3, rows: 3 });
  });
});

describe("A rate limit", () => {
  it("O3: it holds all entries of its destination, and those of no other", async () => {
    const limited: Answer = { status: 429, headers: { "retry-after": "60" } };
    const { box, asked } = givenReplies(({ body }) =>
      body.channel === TO.slack.channel ? limited : DONE.slack,
    );
    await put(box, TO.slack, "a", "b");
    await until(() => asked.length === 1);
    await until(async () => (await stateOf(box, "a"))?.attempt === 2);
    await put(box, TO.slack, "c");
    await put(box, OTHER, "d");
    await until(async () => (await stateOf(box, "d")) === null);
    await sleep(50);
    expect(asked.map(({ body }) => body.channel)).toEqual([TO.slack.channel, OTHER.channel]);
    const { dueAt } = (await stateOf(box, "a")) as { dueAt: number };
    expect(dueAt).toBeGreaterThan(Date.now() + 50_000);
    // A restart forgets it: one more refusal, and the destination is held again.
    await crashBox(box);
    await wakeBox(box);
    await until(() => asked.length === 3);
    await sleep(50);
    expect(asked).toHaveLength(3);
  });

  it("O3: the held entries are sent after the time that the provider asked for", async () => {
    const { box, asked } = givenReplies((_, nth) =>
      nth === 1 ? { status: 429, body: { retry_after: 0.4 } } : DONE.discord,
    );
    const before = Date.now();
    await put(box, TO.discord, "a", "b");
    await until(async () => {
      await wakeBox(box);
      return asked.length === 3;
    });
    expect(Date.now() - before).toBeGreaterThanOrEqual(400);
    await isEmpty(box);
  });
});

describe("An attempt whose outcome is not known", () => {
  const UNSURE: readonly [string, Answer][] = [
    ["a time limit", "hangs"],
    ["a lost connection", "lost"],
    ["a server error", { status: 500 }],
  ];

  it.each(
    UNSURE.flatMap(([what, answer]) =>
      (["slack", "telegram"] as const).map((name) => [name, what, answer] as const),
    ),
  )("O2: %s, after %s, is a dead letter that can be redriven", async (name, _, answer) => {
    // Also the time of the second attempt, which answers: enough for a busy machine.
    const policy = { ...QUICK, timeout: answer === "hangs" ? 2_000 : HANG_MS };
    const { box, asked, letters } = givenReplies(
      (_asked, nth) => (nth === 1 ? answer : DONE[name]),
      { settings: { policy } },
    );
    await put(box, TO[name], "a");
    await until(() => letters.length === 1);
    expect(letters[0]).toMatchObject({
      id: "a",
      attempts: 1,
      lastError: expect.stringMatching(MAY_HAVE_ARRIVED),
    });
    expect(asked).toHaveLength(1);
    expect(await inside(box, ({ outbox }) => outbox.redrive("a"))).toBe(true);
    await isEmpty(box);
    expect(asked).toHaveLength(2);
    expect(letters).toHaveLength(1);
  });

  it("O2: an e-mail whose binding does not answer is a dead letter", async () => {
    let calls = 0;
    const EMAIL = {
      send: () => {
        calls++;
        return forever();
      },
    };
    const settings = { policy: { ...QUICK, timeout: 50 } };
    const { box, letters } = givenReplies(() => "lost", { env: { EMAIL }, settings });
    await put(box, TO.email, "a");
    await until(() => letters.length === 1);
    expect(letters[0]?.lastError).toMatch(MAY_HAVE_ARRIVED);
    expect(calls).toBe(1);
  });

  it("O2: after a crash during the request it is a dead letter, and is reported once", async () => {
    const { box, asked, letters } = givenReplies(() => "hangs");
    await put(box, TO.slack, "a", "b");
    await until(() => asked.length === 1);
    await crashBox(box);
    await comesTo(box, "a", "dead");
    await until(() => letters.length === 1);
    expect(letters[0]).toMatchObject({
      id: "a",
      attempts: 1,
      lastError: expect.stringMatching(/^The object was restarted.*It may have been delivered/),
    });
    // The one behind it was not in flight.
    await until(() => asked.length === 2);
    expect(await stateOf(box, "b")).toMatchObject({ state: "waiting" });
    await crashBox(box);
  });

  it("O2: a redrive of all leaves out what may have been delivered, unless it asks for it", async () => {
    const { box, asked, letters } = givenReplies((_, nth) => {
      if (nth === 1) return { status: 500 };
      if (nth === 2) return { status: 200, body: { ok: false, error: "channel_not_found" } };
      return DONE.slack;
    });
    await put(box, TO.slack, "a", "b");
    await until(() => letters.length === 2);
    expect(letters.map(({ id, isUncertain }) => [id, isUncertain])).toEqual([
      ["a", true],
      ["b", false],
    ]);
    const counts = [undefined, true, false].map((isUncertain) =>
      inside(box, ({ outbox }) =>
        outbox.countDeadLetters({ ...(isUncertain !== undefined && { isUncertain }) }),
      ),
    );
    expect(await Promise.all(counts)).toEqual([2, 1, 1]);
    expect(await inside(box, ({ outbox }) => outbox.redriveAll())).toBe(1);
    await comesTo(box, "b", undefined);
    expect(await stateOf(box, "a")).toMatchObject({ state: "dead" });
    expect(asked).toHaveLength(3);
    const listed = await inside(box, ({ outbox }) => outbox.listDeadLetters({ isUncertain: true }));
    expect(listed.items.map(({ id }) => id)).toEqual(["a"]);
    expect(await inside(box, ({ outbox }) => outbox.redriveAll({ isUncertain: true }))).toBe(1);
    await comesTo(box, "a", undefined);
    expect(asked).toHaveLength(4);
  });

  it("O2: after a crash before the request it is sent once", async () => {
    let isSet = false;
    const TOKEN_LATER = { get: () => (isSet ? Promise.resolve(TOKEN) : forever()) };
    const { box, asked, letters } = givenReplies(() => DONE.slack, { env: { TOKEN: TOKEN_LATER } });
    await put(box, TO.slack, "a");
    await sleep(50);
    isSet = true;
    await crashBox(box);
    await comesTo(box, "a", undefined);
    expect(asked).toHaveLength(1);
    expect(letters).toEqual([]);
  });

  it("O2: a token that hangs until the time limit is retried, and nothing is sent after it", async () => {
    const { promise, resolve } = Promise.withResolvers<string>();
    let reads = 0;
    const LATE = { get: () => (++reads === 1 ? promise : Promise.resolve(TOKEN)) };
    const settings = { policy: { ...QUICK, timeout: 2_000 } };
    const { box, asked, letters } = givenReplies(() => DONE.slack, {
      env: { TOKEN: LATE },
      settings,
    });
    await put(box, TO.slack, "a");
    await comesTo(box, "a", undefined);
    await inside(box, () => resolve(TOKEN));
    await sleep(50);
    expect(asked).toHaveLength(1);
    expect(letters).toEqual([]);
  });

  it("O3: a certain refusal is retried, also several times", async () => {
    const { box, asked, letters } = givenReplies((_, nth) =>
      nth <= 3 ? { status: 200, body: { ok: false, error: "invalid_auth" } } : DONE.slack,
    );
    await put(box, TO.slack, "a");
    await comesTo(box, "a", undefined);
    expect([asked.length, letters.length]).toEqual([4, 0]);
  });

  it("O3: a permanent failure is a dead letter that was certainly not delivered", async () => {
    const { box, letters } = givenReplies(() => ({
      status: 200,
      body: { ok: false, error: "channel_not_found" },
    }));
    await put(box, TO.slack, "a");
    await until(() => letters.length === 1);
    expect(letters[0]?.lastError).toMatch(/^Slack answered 200: .*channel_not_found/);
    expect(letters[0]?.lastError).not.toMatch(MAY_HAVE_ARRIVED);
  });

  it("O2: put again under its id, a dead letter of unknown outcome is not sent", async () => {
    const { box, asked, letters } = givenReplies(() => ({ status: 500 }));
    await put(box, TO.telegram, "a");
    await until(() => letters.length === 1);
    await put(box, TO.telegram, "a");
    await sleep(50);
    expect(asked).toHaveLength(1);
  });
});

describe("A provider that recognizes a repetition", () => {
  it("O2: Discord gets the same nonce within two minutes", async () => {
    const { box, asked } = givenReplies((_, nth) => (nth <= 2 ? "lost" : DONE.discord));
    await put(box, TO.discord, "a");
    await comesTo(box, "a", undefined);
    expect(asked).toHaveLength(3);
    expect(new Set(asked.map(({ body }) => body.nonce)).size).toBe(1);
  });

  it("O2: Discord gets no repetition later than two minutes after the first attempt", async () => {
    let now = Date.now();
    const { box, asked, letters } = givenReplies(() => "lost", {
      clock: { now: () => now, random: () => 0.5 },
      settings: { policy: { backoff: { base: "1 minute", cap: "1 minute" } } },
    });
    await put(box, TO.discord, "a");
    await until(async () => (await stateOf(box, "a"))?.attempt === 2);
    now += 125_000;
    await comesTo(box, "a", "dead");
    expect(asked).toHaveLength(1);
    expect(letters[0]).toMatchObject({
      attempts: 1,
      lastError: expect.stringMatching(MAY_HAVE_ARRIVED),
    });
  });

  it("O2: Discord is sent the message again after a crash within two minutes", async () => {
    const { box, asked } = givenReplies((_, nth) => (nth === 1 ? "hangs" : DONE.discord));
    await put(box, TO.discord, "a");
    await until(() => asked.length === 1);
    await crashBox(box);
    await comesTo(box, "a", undefined);
    expect(asked.map(({ body }) => body.nonce)).toEqual([
      asked[0]?.body.nonce,
      asked[0]?.body.nonce,
    ]);
  });

  it("O2: the answer to an interaction is repeated at any time", async () => {
    const { box, asked } = givenReplies((_, nth) =>
      nth <= 3 ? { status: 500 } : DONE.interaction,
    );
    await put(box, TO.interaction, "a");
    await comesTo(box, "a", undefined);
    expect(asked).toHaveLength(4);
  });

  it("O2: GitHub is asked for the comment before a repetition", async () => {
    const posted: { body: string }[] = [];
    const { box, asked } = givenReplies(({ method, body }) => {
      if (method === "GET") return { status: 200, body: posted };
      posted.push(body);
      // Posted, and the response is lost.
      return "lost";
    });
    await put(box, TO.github, "a");
    await comesTo(box, "a", undefined);
    expect(asked.map(({ method }) => method)).toEqual(["POST", "GET"]);
    expect(posted).toHaveLength(1);
  });

  it("O2: GitHub is asked for the comment after a crash during the request", async () => {
    const posted: { body: string }[] = [];
    const { box, asked } = givenReplies(({ method, body }) => {
      if (method === "GET") return { status: 200, body: posted };
      posted.push(body);
      return "hangs";
    });
    await put(box, TO.github, "a");
    await until(() => asked.length === 1);
    await crashBox(box);
    await comesTo(box, "a", undefined);
    expect(posted).toHaveLength(1);
  });
});

it("O3: lists and hooks do not show the secrets of a destination", async () => {
  const { box, letters } = givenReplies(() => ({ status: 400 }));
  await put(box, TO.interaction, "a");
  await until(() => letters.length === 1);
  const shown = await inside(box, async ({ outbox }) => [
    await outbox.listDeadLetters(),
    await outbox.listDeliveries(),
  ]);
  expect(JSON.stringify([letters, shown])).not.toContain(INTERACTION);
  expect(letters[0]?.destination).toMatchObject({ kind: "discord", interaction: "(hidden)" });
});

it("O3: a reply that was cut is reported once it was delivered", async () => {
  const problems: string[] = [];
  const { url } = givenProvider((_, nth) => (nth === 1 ? "lost" : DONE.discord));
  const cut = givenOutbox({
    deliver: () => {},
    env: SECRETS,
    apis: apisAt(url),
    settings: {
      policy: QUICK,
      onProblem: ({ type, message }) => void problems.push(`${type}: ${message}`),
    },
  });
  await putAll(cut, ["a"], discord("1122334455667788990", { token: "TOKEN" }), "x".repeat(3_000));
  await comesTo(cut, "a", undefined);
  expect(problems).toEqual([
    "outbox:cut: A message of 3000 characters was cut to 2000, the limit of discord",
  ]);
});

it("O2: replies of different destinations do not wait for each other", async () => {
  const { box, asked } = givenReplies(({ body }) => (body.chat_id === 1 ? "hangs" : DONE.telegram));
  await put(box, telegram(1, { token: "TOKEN" }), "a");
  await put(box, telegram(2, { token: "TOKEN" }), "b");
  await until(async () => (await stateOf(box, "b")) === null);
  expect(asked).toHaveLength(2);
  await crashBox(box);
});

it("O2: an attempt that has ended cannot mark itself, and is retried", async () => {
  let nth = 0;
  const marks: string[] = [];
  const box = givenOutbox({
    isTelegram: true,
    settings: { policy: { ...QUICK, timeout: 1_000 } },
    deliver: async (_sent, _to, _object, attempt) => {
      if (++nth > 1) return;
      await sleep(1_100);
      await attempt.markSending().catch((error: Error) => void marks.push(error.name));
      marks.push("ended");
    },
  });
  await put(box, TO.telegram, "a");
  await until(() => marks.length === 2);
  expect(marks).toEqual(["AbortError", "ended"]);
  await comesTo(box, "a", undefined);
  expect(nth).toBe(2);
});

it("O1: the output of a submission is sent to its reply as text", async () => {
  const { url, asked } = givenProvider(() => DONE.slack);
  const stub = givenLedger();
  births.set(stub.name ?? "", (object) => replies({ apis: apisAt(url) }).install(object));
  const to = slack("C0123456789", { token: "HOOK_SECRET" });
  await submit(stub, {}, { submissionId: "s", notify: to });
  await until(() => asked.length === 1);
  expect(asked[0]?.body).toMatchObject({ channel: "C0123456789", text: "done" });
  await within(stub, async ({ outbox }) => {
    await until(async () => (await outbox.stats()).waiting === 0);
  });
});
