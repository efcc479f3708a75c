/**
 * An offline model, so that the examples need no key. It returns an answer that matches the schema, made from the question.
 */

import type { LanguageModel } from "ai";

type Model = Extract<LanguageModel, { specificationVersion: "v4" }>;
type CallOptions = Parameters<Model["doStream"]>[0];
type StreamResult = Awaited<ReturnType<Model["doStream"]>>;
type Part = StreamResult["stream"] extends ReadableStream<infer P> ? P : never;
type JsonSchema = {
  readonly type?: string;
  readonly enum?: readonly unknown[];
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly items?: JsonSchema;
};

export class OfflineModel implements Model {
  readonly specificationVersion = "v4";
  readonly provider = "perdure-example";
  readonly modelId = "offline";
  readonly supportedUrls = {};

  async doGenerate(): Promise<never> {
    throw new Error("The offline model only streams");
  }

  async doStream(options: CallOptions): Promise<StreamResult> {
    const parts = partsOf(options);
    return {
      stream: new ReadableStream<Part>({
        async pull(controller) {
          const { done, value } = await parts.next();
          if (done) controller.close();
          else controller.enqueue(value);
        },
      }),
    };
  }
}

async function* partsOf({ prompt, tools }: CallOptions): AsyncGenerator<Part> {
  const question = lastQuestion(prompt);
  const tool = tools?.find(({ name }) => name.startsWith("think_final_answer"));
  const id = crypto.randomUUID();
  yield { type: "stream-start", warnings: [] };
  if (tool?.type === "function") {
    const input = JSON.stringify(exampleOf(tool.inputSchema as JsonSchema, question));
    yield { type: "tool-input-start", id, toolName: tool.name };
    yield { type: "tool-input-delta", id, delta: input };
    yield { type: "tool-input-end", id };
    yield { type: "tool-call", toolCallId: id, toolName: tool.name, input };
  } else {
    yield { type: "text-start", id };
    yield { type: "text-delta", id, delta: `You asked: ${question}` };
    yield { type: "text-end", id };
  }
  yield {
    type: "finish",
    finishReason: { unified: tool ? "tool-calls" : "stop", raw: undefined },
    usage: {
      inputTokens: { total: question.length, noCache: undefined, cacheRead: 0, cacheWrite: 0 },
      outputTokens: { total: 10, text: 10, reasoning: 0 },
    },
  };
}

/** A value that matches the schema, for the schemas of these examples. */
function exampleOf(schema: JsonSchema, question: string): unknown {
  if (schema.enum) return schema.enum[question.length % schema.enum.length];
  if (schema.type === "object") {
    const entries = Object.entries(schema.properties ?? {});
    return Object.fromEntries(entries.map(([name, inner]) => [name, exampleOf(inner, question)]));
  }
  if (schema.type === "array") return schema.items ? [exampleOf(schema.items, question)] : [];
  if (schema.type === "number" || schema.type === "integer") return question.split(" ").length;
  if (schema.type === "boolean") return true;
  return question;
}

function lastQuestion(prompt: CallOptions["prompt"]): string {
  const message = prompt.findLast(({ role }) => role === "user");
  if (message?.role !== "user") return "";
  return message.content.map((part) => (part.type === "text" ? part.text : "")).join(" ");
}
