/** The scripted model of the test kit, which a test can stop at a {@link Hold} by the `id` of the script. */

import { isFollowUp, ScriptedModel } from "perdure/testing";
import { findHold, type Hold } from "./hold.ts";
import { toolResults } from "./receivers.ts";

type CallOptions = Parameters<ScriptedModel["doStream"]>[0];
type Stream = Awaited<ReturnType<ScriptedModel["doStream"]>>["stream"];
type Part = Stream extends ReadableStream<infer P> ? P : never;

export class HeldModel extends ScriptedModel {
  override async doStream(options: CallOptions): Promise<{ stream: Stream }> {
    const id = parseId(getQuestion(options));
    const results = options.prompt.filter(({ role }) => role === "tool");
    if (id !== undefined) toolResults.receive(id, JSON.stringify(results));
    const hold = findHold(id);
    if (hold?.options.at === "reply") {
      const { stream } = await super.doStream(options);
      return { stream: pauseReply(stream, hold, options.abortSignal) };
    }
    await hold?.pass(options.abortSignal);
    return super.doStream(options);
  }
}

/** Passes the first words of the text, then waits at the hold. */
function pauseReply(stream: Stream, hold: Hold, signal: AbortSignal | undefined): Stream {
  let words = -(hold.options.words ?? 1);
  return stream.pipeThrough(
    new TransformStream<Part, Part>({
      async transform(part, controller) {
        if (part.type === "text-delta" && ++words === 1) await hold.pass(signal);
        controller.enqueue(part);
      },
    }),
  );
}

/** The last user message that is no follow-up of an interrupted attempt. */
function getQuestion({ prompt }: CallOptions): string {
  const questions = prompt.flatMap(({ role, content }) =>
    role === "user" ? content.map((part) => (part.type === "text" ? part.text : "")).join("") : [],
  );
  return questions.findLast((text) => !isFollowUp(text)) ?? "";
}

function parseId(question: string): string | undefined {
  if (!question.startsWith("{")) return undefined;
  return (JSON.parse(question) as { id?: string }).id;
}
