/** Counts the replies of every scripted model whose beginning a turn has read. Importing it starts the count. */

import { modelCalls, ScriptedModel } from "../../src/testing/index.ts";

type Part =
  Awaited<ReturnType<ScriptedModel["doStream"]>>["stream"] extends ReadableStream<infer P>
    ? P
    : never;

/** Replies of which all was read that comes before the delay of their script, by the text of the script. */
export const repliesBegun = new Map<string, number>();

/** The script of the latest call: a call is counted before anything else happens. */
let latest = "";
const setCalls = modelCalls.set.bind(modelCalls);
modelCalls.set = (text, calls) => {
  latest = text;
  return setCalls(text, calls);
};

const { doStream } = ScriptedModel.prototype;

ScriptedModel.prototype.doStream = async function counted(options) {
  const call = doStream.call(this, options);
  const text = latest;
  const parts = (await call).stream.getReader();
  let isBeginning = false;
  return {
    stream: new ReadableStream<Part>(
      {
        async pull(controller) {
          if (isBeginning) repliesBegun.set(text, (repliesBegun.get(text) ?? 0) + 1);
          const { done, value } = await parts.read();
          if (done) return controller.close();
          controller.enqueue(value);
          isBeginning = text.includes('"first":')
            ? value.type === "text-end" && value.id === "0"
            : value.type === "stream-start";
        },
      },
      // The next part is read when the turn has taken the one before.
      { highWaterMark: 0 },
    ),
  };
};
