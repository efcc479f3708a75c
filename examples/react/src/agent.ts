/** The agent of the page: it drafts answers to customers in a named thread, and a person approves each. */

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

  /** Called by the page. It returns when the question is stored, before it is answered. */
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

  /** Called by the outbox with the end of a submission, at least once. The workflow's id is the same each time. */
  async onDraft({ event }: Delivery<SubmissionEvent>): Promise<void> {
    const { submissionId, status, output } = event.data;
    if (status !== "completed") return;
    const draft = { submissionId, text: String(output) };
    await this.runWorkflow("SEND", draft, { id: `send-${submissionId}`, ifExists: "return" });
  }

  /** The state when the page connects. Later changes are sent as messages. */
  @callable()
  async recent() {
    const submissions = await this.listSubmissions({ thread: "customers", limit: 20 });
    const { items: approvals } = await this.approvals.list({
      status: ["pending", "approved", "rejected"],
    });
    return { submissions, approvals };
  }

  @callable()
  async decide(approvalId: string, isApproved: boolean): Promise<void> {
    const by = "the page";
    if (isApproved) await this.approvals.grant(approvalId, { by });
    else await this.approvals.reject(approvalId, { by });
  }

  // Every connection may see everything here. In an app, check `connection.state`.
  protected override shouldSendSubmission() {
    return true;
  }

  protected override shouldSendApproval() {
    return true;
  }
}
