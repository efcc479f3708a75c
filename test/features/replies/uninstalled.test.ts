/** Replies where the object's class does not install them: what is refused, and what becomes of stored deliveries. */

import { expect, it } from "vitest";
import type { Problem } from "../../../src/core/problems.ts";
import { outboxFacts } from "../../../src/outbox/facts.ts";
import { InvalidDestinationError } from "../../../src/outbox/index.ts";
import { OUTBOX_RULES } from "../../../src/outbox/operated/rules.ts";
import { until } from "../../support/given.ts";
import type { OutboxScript } from "../../support/objects/outbox-object.ts";
import {
  crashBox,
  givenOutbox,
  inside,
  putAll,
  wakeBox,
  wakesOf,
  workflowNamed,
} from "../../support/outbox.ts";
import { givenProvider } from "./fake-provider.ts";
import { apisAt, DONE, SECRETS, TO } from "./kinds.ts";

const LINE = 'static override readonly features = [replies()], from "perdure/replies"';

it("O1: put() refuses a reply with the line to add, and stores nothing", async () => {
  const box = givenOutbox({ deliver: () => {}, env: SECRETS, hasNoReplies: true });
  await inside(box, async ({ lifecycle, outbox }) => {
    await lifecycle.start();
    const put = () => outbox.put(TO.slack, "done");
    expect(put).toThrow(InvalidDestinationError);
    expect(put).toThrow(
      `Invalid destination.kind "slack": expected an installed kind. Add to the class: ${LINE}.`,
    );
    expect(await outbox.stats()).toEqual({ waiting: 0, deadLetters: 0 });
  });
});

it("O2: stored replies stay as they are, a start reports them once, and they are sent when they are installed again", async () => {
  const { url, asked } = givenProvider((_, nth) => (nth === 1 ? "hangs" : DONE.interaction));
  const problems: Problem[] = [];
  const script: OutboxScript = {
    deliver: () => {},
    env: SECRETS,
    apis: apisAt(url),
    settings: {
      policy: { backoff: { base: 1, cap: 1 } },
      onProblem: (problem) => void problems.push(problem),
    },
  };
  const box = givenOutbox(script);
  await putAll(box, ["a", "b"], TO.interaction, "done");
  await until(() => asked.length === 1);

  script.hasNoReplies = true;
  await crashBox(box);
  await wakeBox(box);
  await putAll(box, ["other"], workflowNamed("plain"));
  await inside(box, async ({ outbox }, ctx) => {
    await until(async () => (await outbox.stats()).waiting === 2);
    expect(await outbox.inspect("a")).toMatchObject({ state: "waiting", attempt: 1 });
    expect(await outbox.listDeliveries({ kind: "discord" })).toMatchObject({
      items: [{ id: "b" }, { id: "a" }],
    });
    await until(async () => (await wakesOf(ctx)).job === null);
    const facts = outboxFacts(outbox);
    expect(OUTBOX_RULES.flatMap((rule) => rule(facts, Date.now()))).toMatchObject([
      {
        code: "destination-fails",
        title: expect.stringMatching(
          /^2 deliveries to .* wait since .*: discord is not installed\.$/,
        ),
        cause: expect.stringMatching(/^The class installs nothing that sends to it/),
        fix: { text: `Add to the class: ${LINE}, and deploy.` },
      },
    ]);
  });
  expect(problems).toEqual([
    {
      type: "outbox:uninstalled",
      level: "error",
      message: `2 deliveries wait for discord, which is not installed. Add to the class: ${LINE}`,
      ids: { kind: "discord", waiting: 2 },
    },
  ]);

  script.hasNoReplies = false;
  await crashBox(box);
  await until(async () => {
    await wakeBox(box);
    return inside(box, async ({ outbox }) => (await outbox.stats()).waiting === 0);
  });
  expect(problems).toHaveLength(1);
});
