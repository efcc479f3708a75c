/** What becomes of a prompt when the agent dies between the attempts at an answer: turns by the AI SDK, with a scripted model. */

import { env } from "cloudflare:workers";
import type { AnswerSpec } from "../../../src/submissions/submit-options.ts";
import type { Script } from "../../../src/testing/index.ts";
import { PromptKind } from "../../../src/workflow/waits/kinds/prompt.ts";
import { type Planned, type Plans, planned } from "../../support/crash/matrix.ts";
import { differs, inObject, prepared } from "../../support/crash/objects.ts";
import { type AnswerObject, lent } from "../../support/objects/answer-object.ts";
import { asWait } from "../../support/prompts.ts";
import { request } from "./prompts.ts";

const SCHEMA = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
};
const PORTO = { city: "Porto" };

function answered(script: Script, answer: AnswerSpec): Planned {
  return planned<AnswerObject>({
    verbs: ["PromptKind.open"],
    // What follows on an attempt that failed.
    soonAfter: /INTO perdure_attempts/,
    objects: prepared(env.AnswerObject, (name) => lent.set(name, {})),
    steps: [
      (stub, { id }) =>
        // Its own text, so that its calls of the model are its own.
        inObject(stub, async ({ submissions }: AnswerObject) => {
          const of = { thread: "side", answer: { schema: SCHEMA, ...answer } };
          await new PromptKind(submissions, async () => ({})).open(
            asWait(request({ id }, { ...script, text: id }, of)),
          );
        }),
    ],
    check: (stub) =>
      inObject(stub, async ({ submissions }: AnswerObject) => {
        const found = await submissions.list();
        return differs(
          "W4 it",
          found.map(({ status, output }) => [status, output]),
          [["completed", PORTO]],
        );
      }),
    expect: {
      messages: async (object, thread) =>
        (object as unknown as AnswerObject).turns.threads.messages(thread),
    },
  });
}

export const ANSWERS: Plans = {
  "an answer that is repaired": answered(
    { delayMs: 5, answers: [{ town: "Porto" }, PORTO] },
    { repair: 2 },
  ),
  "a strategy that the provider refuses": answered(
    { delayMs: 5, refuses: "tool_choice", answer: PORTO },
    {},
  ),
  "a model that fails, and the next one": answered(
    { delayMs: 5, fail: "down", failOn: ["one"], answer: PORTO },
    { models: ["one", "two"] },
  ),
};
