/** What put() refuses for replies, and which fields no list and no message shows. */

import { describe, expect, it } from "vitest";
import {
  discord,
  email,
  githubComment,
  replies,
  slack,
  telegram,
} from "../../../src/features/replies/index.ts";
import { Destinations, withoutSecrets } from "../../../src/outbox/destinations/index.ts";
import { type Destination, InvalidOptionError, Outbox } from "../../../src/outbox/index.ts";
import { contextOf } from "../../support/attempts.ts";
import { givenOutbox, inside } from "../../support/outbox.ts";
import { INTERACTION, SECRETS, TO } from "./kinds.ts";

const EMAIL = { send: async () => ({ messageId: "1" }) };
const destinations = new Destinations(contextOf({ ...SECRETS, EMAIL }));
replies().install({ outbox: destinations });
const problemOf = (to: unknown) => destinations.problemOf(to);
const HOOK = "https://hooks.slack.com/commands/T1/2/three";

describe("A destination", () => {
  it.each([
    ...Object.values(TO),
    slack({ responseUrl: HOOK }),
    telegram("@shop_news", { token: "TOKEN" }),
    telegram("-1001234567890", { token: "STORED" }),
    githubComment("a_b/c.d-e", { issue: 1, token: "TOKEN", policy: { maxAttempts: 3 } }),
  ] as Destination[])("O1: %o is valid", (to) => expect(problemOf(to)).toBeUndefined());

  const wrong: readonly [object, RegExp][] = [
    [
      { ...TO.slack, channel: "#general" },
      /^Invalid destination.channel "#general": expected the id/,
    ],
    [{ ...TO.slack, channel: "C1\r\nX" }, /^Invalid destination.channel/],
    [{ ...TO.slack, thread: "1" }, /^Invalid destination.thread "1": expected the ts/],
    [{ ...TO.slack, token: "xoxb-1-s3cr3t" }, /^Invalid destination.token \(not shown\)/],
    [{ ...TO.slack, token: "OTHER" }, /token OTHER: .*wrangler secret put OTHER\.$/],
    [{ ...TO.slack, token: "s3cr3t0f16chars" }, /^Invalid destination.token \(not shown, because/],
    [{ kind: "slack" }, /^Missing option "channel" in destination/],
    [{ kind: "slack", channel: "C0123456789" }, /^Missing option "token" in destination/],
    [
      { ...TO.slack, responseUrl: HOOK },
      /expected either responseUrl alone, or channel with token/,
    ],
    ...[
      "http://hooks.slack.com/commands/s3cr3t",
      "https://hooks.slack.com.example.com/s3cr3t",
      "https://user:s3cr3t@hooks.slack.com/a",
      "https://hooks.slack.com:8443/s3cr3t",
      "https://hooks.slack.com/",
      "https://hooks.slack.com/a/../s3cr3t",
      "https://127.0.0.1/s3cr3t",
      "(hidden)",
    ].map((responseUrl): [object, RegExp] => [
      { kind: "slack", responseUrl },
      /^Invalid destination.responseUrl \(not shown\): expected a response_url of Slack/,
    ]),
    [{ ...TO.discord, channel: "../users" }, /^Invalid destination.channel "..\/users"/],
    [{ ...TO.discord, replyTo: "1" }, /^Invalid destination.replyTo "1"/],
    [{ ...TO.interaction, interaction: "a/s3cr3t/b/c/d/e/f/g" }, /interaction \(not shown\)/],
    [{ ...TO.interaction, interaction: "(hidden)" }, /interaction \(not shown\)/],
    [{ kind: "discord", interaction: INTERACTION }, /^Missing option "application"/],
    [{ kind: "discord", application: "1122334455667788992" }, /^Missing option "interaction"/],
    [{ ...TO.interaction, channel: "1122334455667788992" }, /expected either channel with token/],
    [{ ...TO.telegram, chat: 0 }, /^Invalid destination.chat 0: expected the id of a chat/],
    [{ ...TO.telegram, chat: 1.5 }, /^Invalid destination.chat 1.5/],
    [{ ...TO.telegram, chat: "shop" }, /^Invalid destination.chat "shop"/],
    [{ ...TO.telegram, replyTo: 0 }, /^Invalid destination.replyTo 0/],
    [
      { ...TO.github, repository: "shop" },
      /^Invalid destination.repository "shop": expected "owner/,
    ],
    [{ ...TO.github, repository: "a/.." }, /^Invalid destination.repository "a\/.."/],
    [{ ...TO.github, repository: "a/b/c" }, /^Invalid destination.repository/],
    [{ ...TO.github, repository: "a/b?c" }, /^Invalid destination.repository/],
    [{ ...TO.github, issue: 0 }, /^Invalid destination.issue 0/],
    ...[
      "ann",
      "ann@b@c",
      "Ann <ann@example.org>",
      "a@example.org,b@example.org",
      "a@example.org\r\nBcc: b@example.org",
      `${"x".repeat(250)}@example.org`,
    ].flatMap((address): [object, RegExp][] => [
      [
        { ...TO.email, to: address },
        /^Invalid destination.to .*: expected one address without a name/s,
      ],
      [{ ...TO.email, from: address }, /^Invalid destination.from /],
    ]),
    [{ ...TO.email, subject: "a\nb" }, /^Invalid destination.subject "a\\nb"/],
    [{ ...TO.email, inReplyTo: "b@example.org" }, /^Invalid destination.inReplyTo/],
    [{ ...TO.email, references: "<a@b>\r\n<c@d>" }, /^Invalid destination.references/],
    [
      { ...TO.email, binding: "TOKEN" },
      /^Invalid destination.binding "TOKEN": expected the name of a send_email/,
    ],
  ];

  it.each(wrong)("O1: %o is refused", (to, problem) => {
    const message = problemOf(to);
    expect(message).toMatch(problem);
    expect(message).not.toContain("s3cr3t");
  });

  it("O1: secrets of the destination are in no list, in no log and in no key", () => {
    const secret = [slack({ responseUrl: HOOK }), TO.interaction];
    for (const to of secret) {
      const shown = JSON.stringify([
        withoutSecrets(to),
        destinations.labelOf(to),
        destinations.keyOf(to),
      ]);
      expect(shown).toContain("(hidden)");
      expect(shown).not.toContain("three");
      expect(shown).not.toContain(INTERACTION);
    }
    expect(destinations.labelOf(TO.email)).toBe("EMAIL to an address at example.org");
  });

  it("O2: each place of a provider has its own key", () => {
    const keys = [
      ...Object.values(TO),
      slack("C0123456789", { token: "STORED" }),
      slack({ responseUrl: HOOK }),
      slack({ responseUrl: `${HOOK}/4` }),
      discord("1122334455667788991", { token: "TOKEN" }),
      email({ binding: "EMAIL", from: "a@example.com", to: "b@example.com" }),
    ].map((to) => destinations.keyOf(to));
    expect(new Set(keys).size).toBe(keys.length);
    expect(destinations.keyOf({ ...TO.github, repository: "Octo/SHOP" } as Destination)).toBe(
      destinations.keyOf(TO.github),
    );
  });

  it.each([
    ["a number", 1, /^Invalid event 1: expected a text, or an object with text/],
    ["no text", { blocks: [] }, /^Invalid event.text undefined: expected a text that is not empty/],
    ["an empty text", { text: " \u0000" }, /^Invalid event.text/],
    ["an unknown field", { text: "a", channel: "C1" }, /^Unknown option "channel" in event/],
  ])("O1: put() refuses an event with %s, and stores nothing", async (_, event, problem) => {
    const box = givenOutbox({ deliver: () => {}, env: SECRETS });
    await inside(box, async ({ outbox, lifecycle }) => {
      await lifecycle.start();
      expect(() => outbox.put(TO.slack, event)).toThrow(problem);
      expect(await outbox.stats()).toEqual({ waiting: 0, deadLetters: 0 });
    });
  });

  it("O1: put() refuses a text with markup that would have to be cut", async () => {
    const box = givenOutbox({ deliver: () => {}, env: SECRETS });
    const event = { text: "x".repeat(4_097), parse_mode: "HTML" };
    await inside(box, ({ outbox }) => {
      expect(() => outbox.put(TO.telegram, event)).toThrow(
        "Invalid event.text of 4097 characters: expected at most 4096 characters with parse_mode or entities.",
      );
    });
  });
});

describe("The option apis", () => {
  const outboxWith = (apis: object, allowPrivateAddresses = false) =>
    replies({ apis }).install({ outbox: new Outbox({ host: {}, env: {}, allowPrivateAddresses }) });

  it("O1: it takes https: URLs, and private ones where they are allowed", () => {
    outboxWith({ github: "https://github.example.com/api/v3" });
    outboxWith({ telegram: "http://127.0.0.1:8081" }, true);
  });

  it.each([
    [{ github: "https://github.example.com/" }, /^Invalid apis.github /],
    [{ github: "http://github.example.com" }, /^Invalid apis.github /],
    [{ github: "https://a:b@github.example.com" }, /^Invalid apis.github /],
    [{ github: "https://10.0.0.1" }, /expected a public host/],
    [{ slak: "https://slack.example.com" }, /^Unknown option "slak" in apis/],
  ])("O1: %o is refused", (apis, problem) => {
    expect(() => outboxWith(apis)).toThrow(InvalidOptionError);
    expect(() => outboxWith(apis)).toThrow(problem);
  });
});
