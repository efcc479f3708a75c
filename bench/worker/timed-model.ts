/** A scripted model that records the times of its calls and answers. */

import { ask, ScriptedModel } from "../../src/testing/scripted-model.ts";
import { modelSpans } from "./marks.ts";

type CallOptions = Parameters<ScriptedModel["doStream"]>[0];
type Streamed = Awaited<ReturnType<ScriptedModel["doStream"]>>;
type Part = Streamed["stream"] extends ReadableStream<infer P> ? P : never;

export class TimedModel extends ScriptedModel {
  override async doStream(options: CallOptions): Promise<Streamed> {
    const text = textOf(options);
    // A second call for the same text belongs to the same turn.
    const from = modelSpans.get(text)?.from ?? Date.now();
    modelSpans.set(text, { from });
    const { stream } = await super.doStream(options);
    const noted = new TransformStream<Part, Part>({
      flush: () => void modelSpans.set(text, { from, to: Date.now() }),
    });
    return { stream: stream.pipeThrough(noted) };
  }
}

/** A unique prompt that is answered after some milliseconds. */
export function asked(delayMs: number, id: string = crypto.randomUUID()): string {
  return ask({ answer: { title: id, count: 3 }, delayMs });
}

function textOf({ prompt }: CallOptions): string {
  const last = prompt.findLast(({ role }) => role === "user");
  if (last?.role !== "user") return "";
  return last.content.map((part) => (part.type === "text" ? part.text : "")).join("");
}
