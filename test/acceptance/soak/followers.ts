/** Followers of submissions and threads, which follow again after each kill from the last event that they have. */

import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import type { ReadableStream as NodeStream } from "node:stream/web";
import { setTimeout as delay } from "node:timers/promises";
import type { FollowEvent } from "perdure/streams";
import type { Client } from "./client.ts";

const PAUSE_MS = 300;
const OPEN = ["pending", "running"];

export type Follower = {
  readonly agent: string;
  /** A submission, or a thread. */
  readonly kind: "submission" | "thread";
  readonly id: string;
  /** Ends that it has received, by submission: the status of each. */
  readonly ends: Map<string, string[]>;
  /** Submissions of completed messages, by the number of times each came, with the text. */
  readonly messages: Map<string, string[]>;
  /** Set when the `end` event has come. */
  isOver: boolean;
  /** How often it has connected. */
  connections: number;
};

export class Followers {
  readonly #client: Client;
  readonly #over: AbortSignal;
  readonly all: Follower[] = [];

  constructor(client: Client, over: AbortSignal) {
    this.#client = client;
    this.#over = over;
  }

  /** Follows a thread. Resolves when the follower has its place in the thread's history. */
  followThread(agent: string, thread: string): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    void this.#follow(agent, "thread", thread, resolve);
    return promise;
  }

  followSubmission(agent: string, submissionId: string): void {
    void this.#follow(agent, "submission", submissionId, () => {});
  }

  async #follow(agent: string, kind: Follower["kind"], id: string, placed: () => void) {
    const follower: Follower = {
      ...{ agent, kind, id, ends: new Map(), messages: new Map() },
      ...{ isOver: false, connections: 0 },
    };
    this.all.push(follower);
    let from: string | undefined;
    while (!this.#over.aborted && !follower.isOver) {
      if (this.#client.isHeld) {
        await delay(PAUSE_MS);
        continue;
      }
      try {
        const query = from === undefined ? "" : `?from=${encodeURIComponent(from)}`;
        const path = `follow/${agent}/${kind}/${encodeURIComponent(id)}${query}`;
        follower.connections++;
        for await (const event of readEvents(await this.#client.open(path, this.#over))) {
          from = event.id;
          placed();
          note(follower, event);
        }
      } catch {
        // The machine is down, or the soak is over.
        await delay(PAUSE_MS);
      }
    }
    placed();
  }
}

/** Lines of JSON, as browsers read them. Empty ones are signs of life. */
async function* readEvents(stream: ReadableStream<Uint8Array>): AsyncGenerator<FollowEvent, void> {
  const lines = createInterface({
    input: Readable.fromWeb(stream as unknown as NodeStream<Uint8Array>),
  });
  for await (const line of lines) if (line.trim() !== "") yield JSON.parse(line) as FollowEvent;
}

function note(follower: Follower, event: FollowEvent): void {
  if (event.type === "end") follower.isOver = true;
  if (event.type === "status" && !OPEN.includes(event.submission.status)) {
    const { submissionId, status } = event.submission;
    follower.ends.set(submissionId, [...(follower.ends.get(submissionId) ?? []), status]);
  }
  if (event.type === "message") {
    const text = event.message.parts
      .map((part) => (part.type === "text" ? part.text : ""))
      .join("");
    const known = follower.messages.get(event.submissionId) ?? [];
    follower.messages.set(event.submissionId, [...known, text]);
  }
}
