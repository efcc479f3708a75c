/** The state of the page: submissions, streamed replies and approvals. */

import { useAgent } from "agents/react";
import type { UIMessage } from "ai";
import type { SubmissionInspection } from "perdure/submissions";
import type { Approval, ApprovalMessage, ReplyMessage, SubmissionMessage } from "perdure/think";
import { useRef, useState } from "react";
import { ReplyReader } from "./reply-reader.ts";

type Message = SubmissionMessage | ReplyMessage | ApprovalMessage;
type Recent = { submissions: SubmissionInspection[]; approvals: Approval[] };

export function useDesk(name: string) {
  const [submissions, setSubmissions] = useState<Record<string, SubmissionInspection>>({});
  const [replies, setReplies] = useState<Record<string, UIMessage>>({});
  const [approvals, setApprovals] = useState<Record<string, Approval>>({});
  const readers = useRef(new Map<string, ReplyReader>());

  const agent = useAgent({
    agent: "desk",
    name,
    onOpen: async () => {
      const recent = await agent.call<Recent>("recent");
      // Messages that arrived meanwhile are newer.
      setSubmissions((known) => ({ ...by("submissionId", recent.submissions), ...known }));
      setApprovals((known) => ({ ...by("approvalId", recent.approvals), ...known }));
    },
    onMessage: ({ data }) => {
      const message = JSON.parse(String(data)) as Message;
      if (message.type === "perdure:submission") showSubmission(message.submission);
      else if (message.type === "perdure:reply") showReply(message);
      else if (message.type === "perdure:approval" && "data" in message.approval) {
        const { approval } = message;
        setApprovals((known) => ({ ...known, [approval.approvalId]: approval as Approval }));
      }
    },
  });

  function showSubmission(submission: SubmissionInspection): void {
    const { submissionId, status } = submission;
    setSubmissions((known) => ({ ...known, [submissionId]: submission }));
    if (status === "pending" || status === "running") return;
    readers.current.get(submissionId)?.close();
    readers.current.delete(submissionId);
  }

  function showReply(reply: ReplyMessage): void {
    const { submissionId, attempt, from } = reply;
    let reader = readers.current.get(submissionId);
    if (from === 0) {
      reader?.close();
      reader = new ReplyReader(attempt, (message) =>
        setReplies((known) => ({ ...known, [submissionId]: message })),
      );
      readers.current.set(submissionId, reader);
    }
    // Chunks that do not follow belong to an earlier attempt. The output comes with the end in any case.
    if (reader?.fits(reply)) reader.add(reply);
  }

  return {
    submissions: Object.values(submissions).sort((a, b) => b.createdAt - a.createdAt),
    replies,
    approvals: Object.values(approvals),
    ask: (question: string) => agent.call<string>("ask", [question]),
    decide: (approvalId: string, isApproved: boolean) =>
      agent.call("decide", [approvalId, isApproved]),
  };
}

function by<Key extends string, Item extends Record<Key, string>>(key: Key, items: Item[]) {
  return Object.fromEntries(items.map((item) => [item[key], item])) as Record<string, Item>;
}
