/** What a follower of a submission, a thread or an approval gets, and its reader. Over RPC events are lines of JSON. */

import type { UIMessage, UIMessageChunk } from "ai";
import type { SubmissionInspection } from "../../submissions/types.ts";
import type { Approval } from "../../workflow/waits/kinds/approval-types.ts";

/** Where a stream stands: pass it as `from` to go on after this event. */
type Cursor = { readonly id: string };

/** One event of `followSubmission()`, `followThread()` or `followApproval()`. */
export type FollowEvent = Cursor &
  (
    | { readonly type: "status"; readonly submission: SubmissionInspection }
    | ReplyPart
    /** The whole reply of a submission that has completed, in place of its parts. */
    | { readonly type: "message"; readonly submissionId: string; readonly message: UIMessage }
    | { readonly type: "approval"; readonly approval: Approval }
    /**
     * In a thread: forget the open submissions. All of them follow. It is the first event without `from`, and comes again where
     * submissions were deleted that may have been sent as open ones.
     */
    | { readonly type: "reset" }
    /** No more events follow. */
    | { readonly type: "end" }
  );

/** A part of a reply while it is written. */
export type ReplyPart = {
  readonly type: "reply";
  readonly submissionId: string;
  /** Each attempt writes a reply of its own. */
  readonly attempt: number;
  /** How many chunks came before these. With 0 the reply begins anew. */
  readonly from: number;
  /** As the AI SDK streams them: `readUIMessageStream()` of `ai` makes a message of them. */
  readonly chunks: readonly UIMessageChunk[];
  /** With `from: 0`: the message that the chunks continue, because a crash has interrupted it. */
  readonly base?: UIMessage;
  /** Set if parts are left out, because the reply is larger than 1 MiB. The whole message comes at the end. */
  readonly isCut?: true;
};

/**
 * Reads the stream of `followSubmission()`, `followThread()` or `followApproval()`, e.g. in a Worker that called it over RPC.
 * Leaving the loop ends the stream.
 *
 * @throws what the stream fails with, e.g. because the object went down, and an Error for one that breaks off before its `end`:
 *   follow again with the last event's id as `from`
 * @example
 * const stream = await agent.followSubmission(id);
 * if (!stream) throw new Error(`There is no submission ${id}`);
 * for await (const event of readFollowed(stream)) {
 *   if (event.type === "status") console.log(event.submission.status);
 * }
 */
export async function* readFollowed(
  stream: ReadableStream<Uint8Array>,
): AsyncGenerator<FollowEvent, void> {
  if (typeof stream?.getReader !== "function") {
    throw new TypeError(
      `There is no stream to read: ${stream}. Nothing has the id, or the call was not awaited.`,
    );
  }
  const reader = stream.getReader();
  try {
    yield* eventsOf(reader);
  } finally {
    // The stream has no reader any more: the object forgets its follower. A stream that has failed refuses this.
    await reader.cancel().catch(() => {});
  }
}

/** The same, for a caller that ends the stream itself, by `reader.cancel()`. */
export async function* eventsOf(
  reader: ReadableStreamDefaultReader<Uint8Array>,
): AsyncGenerator<FollowEvent, void> {
  const decoder = new TextDecoder();
  let rest = "";
  let isOver = false;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) {
      if (isOver) return;
      throw new Error("The stream broke off before its end. Follow again from the last event.");
    }
    const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    // An empty line is a sign of life.
    for (const line of lines) {
      if (line === "") continue;
      const event = JSON.parse(line) as FollowEvent;
      isOver = event.type === "end";
      yield event;
    }
  }
}
