/** Turns by the AI SDK whose model fails. */

import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { APICallError } from "ai";
import { describe, expect, it, vi } from "vitest";
import { responseOf, transientOf } from "../../../src/core/failures.ts";
import { ScriptedModel } from "../../../src/testing/index.ts";
import { message } from "../../support/given.ts";
import { call, inside } from "./given-turns.ts";

const overloaded = () =>
  new APICallError({
    message: "overloaded",
    url: "http://model.test",
    requestBodyValues: {},
    statusCode: 529,
    responseHeaders: { "retry-after-ms": "1" },
    isRetryable: true,
  });

/** A model that cannot be reached. */
class OverloadedModel extends ScriptedModel {
  override async doStream(): Promise<never> {
    throw overloaded();
  }
}

/** Fails as overloaded. */
class FaultyModel extends ScriptedModel {
  override async doStream(options: Parameters<ScriptedModel["doStream"]>[0]) {
    const { stream } = await super.doStream(options);
    const faulty = new TransformStream({
      start: (controller) => controller.enqueue({ type: "error", error: overloaded() }),
    });
    return { stream: stream.pipeThrough(faulty) };
  }
}

/** An endpoint that answers with a page: providers' packages find no event in it. */
class PageModel extends ScriptedModel {
  override async doStream() {
    const stream = new ReadableStream<never>({ start: (controller) => controller.close() });
    return { stream, response: { headers: { "content-type": "text/html; charset=utf-8" } } };
  }
}

describe("failures of the provider", () => {
  it("L7: a model endpoint that answers with HTML has an error of its own, which is not retried", () =>
    inside(async (object) => {
      object.lent = { model: new PageModel() };
      const end = await object.run({ messages: [message("hello")] });
      expect(end).toMatchObject({ failure: { name: "InvalidModelResponseError" } });
      const { cause, failure } = end as { cause: unknown; failure: { message: string } };
      expect(transientOf(cause, 0)).toBeUndefined();
      expect(failure.message).toContain("text/html");
    }));

  const ERROR = { error: { message: "Slow down", type: "rate_limit_error", code: 429 } };
  const PROVIDERS = {
    "the OpenAI package": (fetch: typeof globalThis.fetch) =>
      createOpenAI({ apiKey: "k", fetch }).chat("gpt"),
    "the OpenAI package, by the Responses API": (fetch: typeof globalThis.fetch) =>
      createOpenAI({ apiKey: "k", fetch }).responses("gpt"),
    "the Anthropic package": (fetch: typeof globalThis.fetch) =>
      createAnthropic({ apiKey: "k", fetch })("claude"),
  };

  it.each(Object.entries(PROVIDERS))(
    "L8: JSON with status 200 in place of a stream is no reply that was cut off, with %s",
    (_, modelFor) =>
      inside(async (object) => {
        for (const body of [ERROR, { message: "Hello" }]) {
          object.lent = { model: modelFor(async () => Response.json(body)) };
          const end = await object.run({ messages: [message("hello")] });
          expect(end).toMatchObject({ failure: { name: "InvalidModelResponseError" } });
          const { cause, failure } = end as { cause: unknown; failure: { message: string } };
          // It may say that the provider is busy.
          expect(transientOf(cause, 0)).toBeDefined();
          expect(failure.message).toContain("application/json");
        }
      }),
  );

  it.each<[{ code?: string | number; type?: string }, boolean]>([
    [{ code: 429 }, true],
    [{ type: "rate_limit_error" }, true],
    [{ code: "insufficient_quota" }, false],
    [{ code: 400 }, false],
  ])("L8: an error %o in a stream with status 200 is read", (fields, isTransient) =>
    inside(async (object) => {
      const body = JSON.stringify({ error: { message: "No", ...fields } });
      const headers = { "content-type": "text/event-stream" };
      for (const name of [
        "the OpenAI package",
        "the OpenAI package, by the Responses API",
      ] as const) {
        const respond = async () => new Response(`data: ${body}\n\n`, { headers });
        object.lent = { model: PROVIDERS[name](respond) };
        const { cause } = (await object.run({ messages: [message("hello")] })) as {
          cause: unknown;
        };
        expect(transientOf(cause, 0) !== undefined).toBe(isTransient);
        expect(responseOf(cause).isQuotaUsedUp).toBe(fields.code === "insufficient_quota");
      }
    }),
  );

  it.each(["whole", ""])("L8: a stream with the wrong type is read all the same: %o", (content) =>
    inside(async (object) => {
      const chunks = [{ role: "assistant", content }, {}].map((delta, index) => ({
        ...{ id: "c", object: "chat.completion.chunk", created: 1, model: "gpt" },
        choices: [{ index: 0, delta, finish_reason: index === 0 ? null : "stop" }],
      }));
      const text = chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join("");
      const headers = { "content-type": "application/json" };
      const respond = async () => new Response(`${text}data: [DONE]\n\n`, { headers });
      object.lent = { model: PROVIDERS["the OpenAI package"](respond) };
      expect(await object.run({ messages: [message("hello")] })).toMatchObject({
        outcome: "completed",
        text: content,
      });
    }),
  );

  it("L8: a provider error keeps its status", () =>
    inside(async (object) => {
      const headers = { "retry-after": "7" };
      const messages = [message({ fail: "overloaded", status: 529, headers })];
      const end = await object.run({ messages });
      expect(end).toMatchObject({
        outcome: "error",
        failure: { name: "AI_APICallError", message: "overloaded" },
      });
      const cause = end.outcome === "error" ? end.cause : undefined;
      expect(transientOf(cause, 0)).toEqual({ retryAfterMs: 7_000 });
    }));

  it("L8: a provider error keeps its status through the AI SDK's own retries", () =>
    inside(async (object) => {
      object.lent = { model: new OverloadedModel(), maxRetries: 1 };
      const end = await object.run({ messages: [message("hello")] });
      const cause = end.outcome === "error" ? end.cause : undefined;
      expect(cause).toMatchObject({ name: "AI_RetryError" });
      expect(transientOf(cause, 0)).toEqual({ retryAfterMs: 1 });
    }));

  it("L8: an account without credit is not asked again by the AI SDK's own retries", () =>
    inside(async (object) => {
      let calls = 0;
      class BrokeModel extends ScriptedModel {
        override async doStream(): Promise<never> {
          calls++;
          throw new APICallError({
            ...{ message: "no credit", url: "http://model.test", requestBodyValues: {} },
            ...{ statusCode: 429, isRetryable: true },
            data: { error: { code: "insufficient_quota" } },
          });
        }
      }
      object.lent = { model: new BrokeModel(), maxRetries: 2 };
      const end = await object.run({ messages: [message("hello")] });
      expect(end).toMatchObject({ outcome: "error" });
      expect(calls).toBe(1);
    }));

  it("L7: an error in the middle of a reply ends the turn, whatever comes after it", () =>
    inside(async (object) => {
      object.lent = { model: new FaultyModel() };
      const end = await object.run({ messages: [message({ tool: call("charge") })] });
      expect(end).toMatchObject({ outcome: "error" });
      expect(end).toHaveProperty("cause.statusCode", 529);
      expect(object.ledger.log.filter((entry) => entry.startsWith("step"))).toEqual(["step 0"]);
    }));

  it("L7: a provider error prints nothing and leaves no unhandled rejection", () =>
    inside(async (object) => {
      const unhandled = vi.fn();
      const printed = vi.spyOn(console, "error");
      globalThis.addEventListener("unhandledrejection", unhandled);
      for (const script of [{ fail: "a" }, { fail: "b", status: 500 }, { first: "c", fail: "c" }]) {
        const end = await object.run({ messages: [message(script)], submissionId: script.fail });
        expect(end.outcome).toBe("error");
      }
      await object.run({ messages: [message("d")], submissionId: "d", budgetEndsAt: 0 });
      const signal = AbortSignal.abort(new Error("cancelled"));
      const end = await object.run({ messages: [message("e")], submissionId: "e", signal });
      expect(end.outcome).toBe("aborted");
      await new Promise((resolve) => setTimeout(resolve, 50));
      globalThis.removeEventListener("unhandledrejection", unhandled);
      expect(unhandled).not.toHaveBeenCalled();
      expect(printed).not.toHaveBeenCalled();
      printed.mockRestore();
    }));

  it("L6: an error of the platform is thrown, and is not the turn's error", () =>
    inside(async (object) => {
      const reset = Object.assign(new Error("Durable Object reset because its code was updated."), {
        durableObjectReset: true,
      });
      object.lent = {
        hooks: {
          beforeStep: () => {
            throw reset;
          },
        },
      };
      await expect(object.run({ messages: [message("hello")] })).rejects.toBe(reset);
    }));
});
