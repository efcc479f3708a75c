/** The hooks of each host as an app overrides them. Only compiled, by TypeScript 7 and by 5.9 (`npm run check:consumer`). */

import type { Connection } from "agents";
import { DurableAgent, type Problem, type SubmissionInspection } from "perdure/agent";
import { DurableChatAgent } from "perdure/chat";
import { type Approval, DurableThink } from "perdure/think";

export class ThinkApp extends DurableThink<Cloudflare.Env> {
  protected override onProblem(problem: Problem) {
    if (problem.type !== "outbox:endpoint") super.onProblem(problem);
  }
  protected override async onSubmissionStatus({ thread }: SubmissionInspection) {
    await this.clearThread(thread);
  }
  protected override shouldSendApproval({ title }: Approval, connection: Connection) {
    return connection.id === title;
  }
}

export class AgentApp extends DurableAgent<Cloudflare.Env, { count: number }> {
  override getModel() {
    return "openai/gpt-4o-mini";
  }
  protected override onProblem(problem: Problem) {
    return super.onProblem(problem);
  }
  protected override shouldSendSubmission() {
    return this.state.count > 0 ? "status" : false;
  }
}

export class ChatApp extends DurableChatAgent<Cloudflare.Env> {
  protected override onDeadLetter() {
    return this.clearMessages();
  }
  protected override onApproval({ approvalId }: Approval) {
    this.broadcast(approvalId);
  }
  override async destroy() {
    await super.destroy();
  }
}

// @ts-expect-error A hook is protected.
export const called = (agent: AgentApp) => agent.onApproval;
