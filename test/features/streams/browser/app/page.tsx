/** The page: a submission by `?id=`, or the submissions of a thread by `?thread=`. */

import type { UIMessage } from "ai";
import { createRoot } from "react-dom/client";
import { useSubmission, useThread } from "../../../../../src/features/streams/react/index.ts";

declare const document: { getElementById(id: string): Element };
declare const location: { search: string };

const URL_OF_DESK = "/streams/desk/ada";
const query = new URLSearchParams(location.search);
const thread = query.get("thread") ?? undefined;

function Submission() {
  const id = query.get("id") ?? undefined;
  const { submission, ...known } = useSubmission(id, { url: URL_OF_DESK });
  return <One {...known} status={submission?.status} problem={known.error?.message} />;
}

function Thread() {
  const { submissions, connection } = useThread(thread, { url: URL_OF_DESK });
  return submissions.map(({ submission, message }) => (
    <One key={submission?.submissionId} {...{ status: submission?.status, message, connection }} />
  ));
}

function One(of: {
  status: string | undefined;
  message: UIMessage | undefined;
  connection: string;
  problem?: string | undefined;
}) {
  const parts = of.message?.parts ?? [];
  return (
    <article>
      <output id="status">{of.status}</output>
      <output id="connection">{of.connection}</output>
      <output id="problem">{of.problem}</output>
      <p id="reply">{parts.map((part) => (part.type === "text" ? part.text : "")).join("")}</p>
    </article>
  );
}

const page = document.getElementById("page");
createRoot(page).render(thread === undefined ? <Submission /> : <Thread />);
