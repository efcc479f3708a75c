/** What a Think agent lends to the gates of its workflows, by kind. */

import type { Think } from "@cloudflare/think";
import {
  type AgentTools,
  type Approval,
  type ApprovalMessage,
  approvalKind,
  Codemode,
  type GateKind,
  type GateKindName,
  type Gates,
} from "../../gates/index.ts";
import { codemodePort } from "./codemode-port.ts";

export function kindsOf(
  agent: Think,
  gates: Gates,
  own: {
    readonly agentTools: AgentTools;
    /** The app's hook. */
    readonly onApproval: (approval: Approval) => void | Promise<void>;
  },
): Record<GateKindName, GateKind> {
  const approval = approvalKind((approval) => {
    const message: ApprovalMessage = { type: "perdure:approval", approval };
    agent.broadcast(JSON.stringify(message));
    return own.onApproval(approval);
  });
  const codemode = new Codemode(gates, codemodePort(agent));
  return { approval, "agent-tool": own.agentTools, codemode };
}
