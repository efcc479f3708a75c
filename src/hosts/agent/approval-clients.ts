/** Sends each change of an approval to the connected clients of an agent, and calls the app's hook. */

import type { Agent, Connection } from "agents";
import type { Approval, ApprovalMessage } from "../../kernel/waits/index.ts";

export type ApprovalAgent = Pick<Agent, "broadcast" | "getConnections"> & {
  shouldSendApproval(approval: Approval, connection: Connection): boolean;
  onApproval(approval: Approval): void | Promise<void>;
};

/** An approval was opened, decided, expired or cancelled. */
export function announceApproval(agent: ApprovalAgent, approval: Approval): void | Promise<void> {
  try {
    send(agent, approval);
  } catch (error) {
    console.error(`[perdure] approval ${approval.approvalId} could not be sent to clients:`, error);
  }
  return agent.onApproval(approval);
}

/** Clients that the app has chosen get all of the approval, the others its id, status and title. */
function send(agent: ApprovalAgent, approval: Approval): void {
  const { approvalId, status, title } = approval;
  const chosen: string[] = [];
  try {
    for (const connection of agent.getConnections()) {
      // A promise is not `true`.
      if (agent.shouldSendApproval(approval, connection) !== true) continue;
      chosen.push(connection.id);
      connection.send(messageOf(approval));
    }
  } finally {
    agent.broadcast(messageOf({ approvalId, status, title }), chosen);
  }
}

function messageOf(approval: ApprovalMessage["approval"]): string {
  return JSON.stringify({ type: "perdure:approval", approval } satisfies ApprovalMessage);
}
