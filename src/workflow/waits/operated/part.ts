/** What workflows wait for, for operators, where the agent runs. */

import type { OnOne } from "../../../engine/operated/catalog.ts";
import {
  done,
  type Effect,
  failed,
  NOT_FOUND,
  UNCHANGED,
} from "../../../engine/operated/effect.ts";
import { type ItemVerb, operatedPart } from "../../../engine/operated/part.ts";
import type { Submissions } from "../../../submissions/submissions.ts";
import { readKindNumbers, waitFacts } from "../facts.ts";
import type { Approvals } from "../kinds/approval.ts";
import type { Approval, ApprovalDecisionResult } from "../kinds/approval-types.ts";
import type { Waits } from "../waits.ts";
import type { ACTIONS } from "./catalog.ts";
import { WAIT_RULES } from "./rules.ts";

/** The agent as these actions see it. */
type Operated = {
  readonly storage: DurableObjectStorage;
  readonly agent: { readonly approvals: Pick<Approvals, "inspect" | "grant" | "reject"> };
  readonly capabilities: { readonly submissions: Submissions; readonly waits: Waits };
};

type Decision = OnOne<typeof ACTIONS>;

/** A repetition of a decision changes nothing, and an earlier decision stays. */
function decisionOn({ approvalId, status }: Approval, { do: action }: Decision): Effect {
  if (status === "pending") return done();
  const isAlreadyDecided = status === (action === "approve" ? "approved" : "rejected");
  return isAlreadyDecided ? UNCHANGED : failed(approvalId, new Error(`It is ${status} already.`));
}

function effectOf(result: ApprovalDecisionResult, action: Decision): Effect {
  if (result.outcome === "not_found") return NOT_FOUND;
  return result.outcome === "decided" ? done() : decisionOn(result.approval, action);
}

const decision = {
  async look({ agent }, action) {
    const found = await agent.approvals.inspect(action.approvalId);
    return found ? decisionOn(found, action) : NOT_FOUND;
  },
  after: ({ agent }, { approvalId }) => agent.approvals.inspect(approvalId),
} satisfies Omit<ItemVerb<Operated, Decision>, "act">;

const approve: ItemVerb<Operated, OnOne<typeof ACTIONS, "approve">> = {
  ...decision,
  async act({ agent }, action, { by, reason }) {
    const { approvalId, payload } = action;
    const options = { by, reason, ...(payload !== undefined && { payload }) };
    return effectOf(await agent.approvals.grant(approvalId, options), action);
  },
};

const reject: ItemVerb<Operated, OnOne<typeof ACTIONS, "reject">> = {
  ...decision,
  act: async ({ agent }, action, { by, reason }) =>
    effectOf(await agent.approvals.reject(action.approvalId, { by, reason }), action),
};

export const PARTS = {
  waits: operatedPart({
    answers: ["onTime"],
    facts: async ({ capabilities, storage }: Operated, now) => {
      await capabilities.submissions.ready();
      return waitFacts(storage.sql, readKindNumbers(capabilities.waits), now);
    },
    rules: WAIT_RULES,
    summary: ({ approvals, open, pending }) => ({
      counts: { approvals },
      judges: open > 0 ? ["onTime"] : [],
      workSince: Math.min(...pending.map(({ createdAt }) => createdAt)),
      isBusy: open > 0,
    }),
    verbs: { approve, reject } satisfies Record<keyof typeof ACTIONS, unknown>,
  }),
};
