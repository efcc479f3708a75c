/** The hooks. Each follows one thing while the component is mounted, and connects again after a lost connection. */

import type { UIMessage } from "ai";
import { useEffect, useState } from "react";
import type { SubmissionInspection } from "../../../submissions/types.ts";
import type { Approval } from "../../../workflow/waits/kinds/approval-types.ts";
import type { FollowEvent } from "../events.ts";
import { type Connection, type Following, follow } from "./follow.ts";
import { ReplyReader } from "./replies.ts";

type Followed = {
  /** `"ended"` when nothing can change any more, `"refused"` with an `error`. */
  readonly connection: Connection | "ended" | "refused";
  /** Why the server refused: a StreamRefusedError. */
  readonly error: Error | undefined;
};

/** The state of a submission. */
export type SubmissionState = Followed & {
  /** Undefined until the first event. */
  readonly submission: SubmissionInspection | undefined;
  /** The reply, as far as it was said. */
  readonly message: UIMessage | undefined;
};

/** The state of an approval. */
export type ApprovalState = Followed & { readonly approval: Approval | undefined };

/** The submissions of a thread since the page follows it: open ones and later ones, the oldest first. */
export type ThreadState = Followed & {
  readonly submissions: readonly Pick<SubmissionState, "submission" | "message">[];
};

const NOTHING = { connection: "connecting", error: undefined } as const;
/** Submissions of a thread that a page keeps; the oldest are dropped. */
const MOST_SHOWN = 1_000;

/**
 * The status of a submission, and its reply while it is written. A reload of the page, or a restart of the server, goes on
 * where the turn is.
 *
 * @param submissionId undefined follows nothing
 * @example
 * const { submission, message } = useSubmission(id, { url: "/streams/Support/main" });
 */
export function useSubmission(
  submissionId: string | undefined,
  following: Following,
): SubmissionState {
  return useFollowed("submissions", submissionId, following, EMPTY, (change) => {
    const reply = new ReplyReader((message) => change({ message }));
    return (event) => {
      if (event.type === "status") change({ submission: event.submission });
      if (event.type === "reply") reply.take(event);
      if (event.type !== "message") return;
      reply.close();
      change({ message: event.message });
    };
  });
}

const EMPTY: SubmissionState = { ...NOTHING, submission: undefined, message: undefined };

/** An approval until it is decided. */
export function useApproval(approvalId: string | undefined, following: Following): ApprovalState {
  return useFollowed("approvals", approvalId, following, UNDECIDED, (change) => (event) => {
    if (event.type === "approval") change({ approval: event.approval });
  });
}

const UNDECIDED: ApprovalState = { ...NOTHING, approval: undefined };

/** The open submissions of a thread, and those that come while the page follows it. */
export function useThread(thread: string | undefined, following: Following): ThreadState {
  return useFollowed("threads", thread, following, SILENT, (changeState) => {
    const shown = new Map<string, { submission?: SubmissionInspection; message?: UIMessage }>();
    const replies = new Map<string, ReplyReader>();
    const change = (id: string, more: object) => {
      shown.set(id, { ...shown.get(id), ...more });
      const [oldest] = shown.keys();
      if (shown.size > MOST_SHOWN && oldest !== undefined) shown.delete(oldest);
      show();
    };
    const show = () => {
      const submissions = [...shown.values()].map(({ submission, message }) => ({
        submission,
        message,
      }));
      changeState({ submissions });
    };
    const replyOf = (id: string) => {
      const reply = replies.get(id) ?? new ReplyReader((message) => change(id, { message }));
      replies.set(id, reply);
      return reply;
    };
    return (event) => {
      if (event.type === "status") {
        const { submission } = event;
        change(submission.submissionId, { submission });
      }
      if (event.type === "reset") {
        for (const [id, { submission }] of shown) if (isOpen(submission)) shown.delete(id);
        show();
      }
      if (event.type === "reply") replyOf(event.submissionId).take(event);
      if (event.type !== "message") return;
      replyOf(event.submissionId).close();
      replies.delete(event.submissionId);
      change(event.submissionId, { message: event.message });
    };
  });
}

function isOpen(submission: SubmissionInspection | undefined): boolean {
  return !submission || submission.status === "pending" || submission.status === "running";
}

const SILENT: ThreadState = { ...NOTHING, submissions: [] };

/**
 * @param empty the state before the first event
 * @param taker makes what gets the events of one mount, and changes the state
 */
function useFollowed<State extends Followed>(
  kind: "submissions" | "threads" | "approvals",
  id: string | undefined,
  { url, headers }: Following,
  empty: State,
  taker: (change: (more: Partial<State>) => void) => (event: FollowEvent) => void,
): State {
  const [state, setState] = useState(empty);
  const change = (more: Partial<State>) => setState((known) => ({ ...known, ...more }));
  // A new object with the same headers is not another connection.
  const sent = JSON.stringify(headers ?? {});
  useEffect(() => {
    setState(empty);
    if (id === undefined) return;
    const controller = new AbortController();
    const { signal } = controller;
    const take = taker(change);
    const address = `${url}/${kind}/${encodeURIComponent(id)}`;
    const options = { headers: JSON.parse(sent) as Record<string, string>, signal };
    const whileMounted =
      <T>(work: (value: T) => void) =>
      (value: T) => {
        if (!signal.aborted) work(value);
      };
    const onConnection = whileMounted((connection: Connection) =>
      change({ connection } as Partial<State>),
    );
    follow(address, options, whileMounted(take), onConnection).then(
      whileMounted(() => change({ connection: "ended" } as Partial<State>)),
      whileMounted((error: Error) => change({ connection: "refused", error } as Partial<State>)),
    );
    return () => controller.abort();
  }, [kind, id, url, sent]);
  return state;
}
