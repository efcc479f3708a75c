/** The agent of the page: it drafts answers to customers in a thread of its own, and a person approves each. */

import { callable } from "agents";
import type { UIMessage } from "ai";
import { type Delivery, method } from "perdure/outbox";
import type { SubmissionEvent } from "perdure/submissions";
import { DurableThink } from "perdure/think";
import { SlowModel } from "./slow-model.ts";

export interface Env extends Cloudflare.Env {
  Desk: DurableObjectNamespace<Desk>;
}

export class Desk extends DurableThink<Env> {
  override getModel() {
    return new SlowModel();
  }

  /** The page calls it. It returns when the question is stored, long before it is answered. */
  @callable()
  async ask(question: string): Promise<string> {
    const message: UIMessage = {
      id: crypto.randomUUID(),
      role: "user",
      parts: [{ type: "text", text: question }],
    };
    const { submissionId } = await this.submitMessages([message], {
      thread: "customers",
      metadata: { question },
      notify: method("onDraft"),
    });
    return submissionId;
  }

  /** The outbox calls it with the end of a submission, at least once: the workflow has one id for each. */
  async onDraft({ event }: Delivery<SubmissionEvent>): Promise<void> {
    const { submissionId, status, output } = event.data;
    if (status !== "completed") return;
    const draft = { submissionId, text: String(output) };
    await this.runWorkflow("SEND", draft, { id: `send-${submissionId}`, ifExists: "return" });
  }

  /** What the page shows when it connects. From then on it is sent each change. */
  @callable()
  async recent() {
    const submissions = await this.listSubmissions({ thread: "customers", limit: 20 });
    const approvals = await this.listApprovals({ status: ["pending", "approved", "rejected"] });
    return { submissions, approvals };
  }

  @callable()
  async decide(approvalId: string, isApproved: boolean): Promise<void> {
    const by = "the page";
    if (isApproved) await this.grantApproval(approvalId, { by });
    else await this.rejectApproval(approvalId, { by });
  }

  // Everybody who can connect may see everything here. In an app, compare with `connection.state`.
  protected override shouldSendSubmission() {
    return true;
  }

  protected override shouldSendApproval() {
    return true;
  }
}
