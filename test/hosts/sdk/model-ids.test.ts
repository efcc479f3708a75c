/** What the id of a model means on hosts of the AI SDK. On Think it is Cloudflare's: see docs/hosts.md. */

import { afterEach, expect, it } from "vitest";
import { ScriptedModel } from "../../../src/testing/index.ts";
import { message } from "../../support/given.ts";
import { inside } from "./given-turns.ts";

const given = globalThis as { AI_SDK_DEFAULT_PROVIDER?: unknown };
afterEach(() => delete given.AI_SDK_DEFAULT_PROVIDER);

it("the id of a model is looked up in the default provider of the AI SDK, also one of Workers AI", () =>
  inside(async (object) => {
    const asked: string[] = [];
    const languageModel = (id: string) => {
      asked.push(id);
      return new ScriptedModel({ text: "found" });
    };
    given.AI_SDK_DEFAULT_PROVIDER = { specificationVersion: "v4", languageModel };
    for (const model of ["openai/gpt-5.5", "@cf/moonshotai/kimi-k2.7-code"]) {
      object.lent = { model };
      await object.run({ messages: [message("hi")], submissionId: model });
    }
    expect(new Set(asked)).toEqual(new Set(["openai/gpt-5.5", "@cf/moonshotai/kimi-k2.7-code"]));
  }));
