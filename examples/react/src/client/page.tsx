/** The page: a question, the status of its submission, the streamed reply, and the approval of the draft. */

import type { UIMessage } from "ai";
import type { SubmissionInspection } from "perdure/submissions";
import type { Approval } from "perdure/think";
import { createRoot } from "react-dom/client";
import { useDesk } from "./use-desk.ts";

function Page() {
  const { submissions, replies, approvals, ask, decide } = useDesk("front");
  return (
    <main>
      <h1>Customers</h1>
      <form action={(form: FormData) => void ask(String(form.get("question")))}>
        <input name="question" placeholder="What does the customer write?" required />
        <button type="submit">Draft an answer</button>
      </form>
      {submissions.map((submission) => (
        <Submission
          key={submission.submissionId}
          submission={submission}
          reply={replies[submission.submissionId]}
          approval={approvals.find(({ data }) => isOf(data, submission))}
          decide={decide}
        />
      ))}
    </main>
  );
}

type SubmissionProps = {
  submission: SubmissionInspection;
  reply: UIMessage | undefined;
  approval: Approval | undefined;
  decide: (approvalId: string, isApproved: boolean) => void;
};

function Submission({ submission, reply, approval, decide }: SubmissionProps) {
  const { status, metadata, error, output } = submission;
  // The streamed reply while it runs, and its output at the end.
  const text = status === "completed" ? String(output) : textOf(reply);
  return (
    <article>
      <strong>{String(metadata?.question)}</strong>
      <span className={`status ${status}`}>{status}</span>
      <p>{text}</p>
      {error !== undefined && <p>{error}</p>}
      {approval && <ApprovalOf approval={approval} decide={decide} />}
    </article>
  );
}

function ApprovalOf({
  approval,
  decide,
}: {
  approval: Approval;
  decide: SubmissionProps["decide"];
}) {
  const { approvalId, title, status } = approval;
  return (
    <p>
      {title}
      <span className={`status ${status}`}>{status}</span>{" "}
      {status === "pending" && (
        <>
          <button type="button" onClick={() => decide(approvalId, true)}>
            Send
          </button>{" "}
          <button type="button" onClick={() => decide(approvalId, false)}>
            Discard
          </button>
        </>
      )}
    </p>
  );
}

function isOf(data: Approval["data"], { submissionId }: SubmissionInspection): boolean {
  return (data as { submissionId?: string } | null)?.submissionId === submissionId;
}

function textOf(reply: UIMessage | undefined): string {
  return (reply?.parts ?? []).map((part) => (part.type === "text" ? part.text : "")).join("");
}

const page = document.getElementById("page");
if (page) createRoot(page).render(<Page />);
