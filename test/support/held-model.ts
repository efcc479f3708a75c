/** A scripted model whose replies a test releases, where a delay could end before the test has looked. */

import { isFollowUp, RecordingModel, type Script } from "../../src/testing/index.ts";

/** The replies that are held, by the id of their script. */
const held = new Map<string, { passes: number; words: number }>();

/** A script whose reply is held until `release()`, over all crashes. */
export type Held<S extends Script = Script> = { script: S & { id: string }; release: () => void };

/**
 * Holds the replies of {@link HeldModel} to this script, after its `first`.
 *
 * @param options.passes calls that get their reply all the same, before the first that is held
 * @param options.words words of the reply that come before it is held, with `wordMs`
 */
export function hold<S extends Script>(
  script: S = {} as S,
  { passes = 0, words = 0 } = {},
): Held<S> {
  const id = crypto.randomUUID();
  held.set(id, { passes, words });
  return { script: { ...script, id }, release: () => void held.delete(id) };
}

type CallOptions = Parameters<RecordingModel["doStream"]>[0];
type Part =
  Awaited<ReturnType<RecordingModel["doStream"]>>["stream"] extends ReadableStream<infer P>
    ? P
    : never;

/** Follows a script as `ScriptedModel`, records its calls, and holds the replies to scripts of {@link hold}. */
export class HeldModel extends RecordingModel {
  override async doStream(options: CallOptions) {
    const id = heldId(options);
    const hold = id === undefined ? undefined : held.get(id);
    const isHeld = hold !== undefined && hold.passes-- <= 0;
    const { stream } = await super.doStream(options);
    return {
      stream: isHeld && id !== undefined ? heldBack(stream, id, hold.words, options) : stream,
    };
  }
}

/** The held script of the last user message that is no follow-up. */
function heldId({ prompt }: CallOptions): string | undefined {
  const asked = prompt.flatMap(({ role, content }) => {
    if (role !== "user") return [];
    const text = content.map((part) => (part.type === "text" ? part.text : "")).join("");
    return isFollowUp(text) ? [] : [text];
  });
  const last = asked.at(-1) ?? "";
  return [...held.keys()].find((id) => last.includes(id));
}

function heldBack(
  stream: ReadableStream<Part>,
  id: string,
  words: number,
  { abortSignal }: CallOptions,
): ReadableStream<Part> {
  const parts = stream.getReader();
  let left = words;
  const passes = (part: Part) =>
    part.type === "stream-start" ||
    ("id" in part && part.id === "0") ||
    (part.type === "text-start" && left > 0) ||
    (part.type === "text-delta" && left-- > 0);
  return new ReadableStream<Part>({
    async pull(controller) {
      const next = parts.read();
      const value = await next.then((read) => read.value).catch(() => undefined);
      // Polled: a promise of the test's own request does not continue the object's.
      while (!(value && passes(value)) && held.has(id)) {
        abortSignal?.throwIfAborted();
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
      const { done } = await next;
      if (done) controller.close();
      else controller.enqueue(value);
    },
  });
}
