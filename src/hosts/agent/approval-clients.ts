/** What a Think agent lends to the waits of its workflows, by kind. */

import type { Agent, Connection } from "agents";
import {
  type AgentTools,
  type Approval,
  type ApprovalMessage,
  approvalKind,
  type WaitKinds,
} from "../../waits/index.ts";

export function kindsOf(
  agent: Agent,
  own: {
    readonly agentTools: AgentTools;
    /** Whether the app lets a client have the whole approval. */
    readonly shouldSendApproval: (approval: Approval, connection: Connection) => boolean;
    /** The app's hook. */
    readonly onApproval: (approval: Approval) => void | Promise<void>;
  },
): WaitKinds {
  const approval = approvalKind((approval) => {
    try {
      tellClients(agent, approval, own.shouldSendApproval);
    } catch (error) {
      console.error(`[perdure] clients were not told of approval ${approval.approvalId}:`, error);
    }
    return own.onApproval(approval);
  });
  return { approval, "agent-tool": own.agentTools };
}

/** Those that the app has chosen get all of it, the others its id, status and title. */
function tellClients(
  agent: Pick<Agent, "broadcast" | "getConnections">,
  approval: Approval,
  isChosen: (approval: Approval, connection: Connection) => boolean,
): void {
  const { approvalId, status, title } = approval;
  const chosen: string[] = [];
  try {
    for (const connection of agent.getConnections()) {
      // A promise is no yes.
      if (isChosen(approval, connection) !== true) continue;
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
