/** Observers of turns and approvals while they happen: connected clients, and followers. Watching stores nothing, and no turn waits for it. */

import type { UIMessage, UIMessageChunk } from "ai";
import type { Turn } from "../../submissions/host.ts";
import type { SubmissionInspection } from "../../submissions/types.ts";
import type { Approval } from "../waits/kinds/approval-types.ts";

/** Who sees a reply while it is written. */
export type ReplyWatcher = {
  chunk(chunk: UIMessageChunk): void;
  /** The model says nothing more in this attempt. */
  end(): void;
};

export type Watcher = {
  /** The status of a submission has changed. */
  status?(submission: SubmissionInspection): void;
  /** An attempt of a side turn begins to write its reply. */
  reply?(turn: Turn, attempt: number): ReplyWatcher | undefined;
  /**
   * Reports a turn of a chat, whose own clients get the reply from the SDK.
   * @param base the message that the reply continues
   */
  chatReply?(submissionId: string, attempt: number, base?: UIMessage): ReplyWatcher;
  /** An approval was opened, decided, expired or cancelled. */
  approval?(approval: Approval): void;
};

export class Watchers {
  readonly #all: Watcher[] = [];

  add(watcher: Watcher): void {
    this.#all.push(watcher);
  }

  status(submission: SubmissionInspection): void {
    for (const watcher of this.#all) watcher.status?.(submission);
  }

  reply(turn: Turn, attempt: number): ReplyWatcher {
    return together(this.#all.map((watcher) => watcher.reply?.(turn, attempt)));
  }

  chatReply(submissionId: string, attempt: number, base?: UIMessage): ReplyWatcher {
    return together(this.#all.map((watcher) => watcher.chatReply?.(submissionId, attempt, base)));
  }

  approval(approval: Approval): void {
    for (const watcher of this.#all) watcher.approval?.(approval);
  }
}

function together(watchers: readonly (ReplyWatcher | undefined)[]): ReplyWatcher {
  return {
    chunk: (chunk) => {
      for (const watcher of watchers) watcher?.chunk(chunk);
    },
    end: () => {
      for (const watcher of watchers) watcher?.end();
    },
  };
}
