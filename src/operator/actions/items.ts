/** Actions on one submission, dead letter, endpoint, inbound delivery, approval or thread. */

import {
  checkNamedThread,
  countOpen,
  isTerminal,
  MAIN,
} from "../../kernel/submissions/internal.ts";
import type { Approval, ApprovalDecisionResult } from "../../kernel/waits/index.ts";
import type { OperatedAgent } from "../operated.ts";
import type { Action } from "../protocol.ts";
import {
  done,
  type Effect,
  failed,
  type ItemVerb,
  NOT_FOUND,
  oneByOne,
  UNCHANGED,
} from "./effect.ts";

type SubmissionAction = Extract<Action, { readonly submissionId: string }>;
type DeliveryAction = Extract<Action, { readonly deliveryId: string }>;
type EndpointAction = Extract<Action, { readonly url: string }>;
type ReplayAction = Extract<Action, { readonly source: string }>;
type Of<Name extends Action["do"]> = Extract<Action, { readonly do: Name }>;

const ledgerOf = ({ capabilities }: OperatedAgent) => capabilities.submissions.engine.ledger;

const submission = {
  id: ({ submissionId }: SubmissionAction) => submissionId,
};

const cancel: ItemVerb<SubmissionAction> = {
  ...submission,
  async look({ agent }, { submissionId }) {
    const found = await agent.inspectSubmission(submissionId);
    if (!found) return NOT_FOUND;
    return isTerminal(found.status) ? UNCHANGED : done();
  },
  async act({ agent }, { submissionId }, { reason }) {
    const { outcome } = await agent.cancelSubmission(submissionId, reason);
    if (outcome === "not_found") return NOT_FOUND;
    return outcome === "cancelled" ? done() : UNCHANGED;
  },
  after: ({ agent }, { submissionId }) => agent.inspectSubmission(submissionId),
};

const retry: ItemVerb<SubmissionAction> = {
  ...submission,
  async look(operated, { submissionId }) {
    const found = await operated.agent.inspectSubmission(submissionId);
    if (!found) return NOT_FOUND;
    const isEnded = isTerminal(found.status) && found.status !== "completed";
    return isEnded && retriedBy(operated, found.submissionId) === undefined ? done() : UNCHANGED;
  },
  async act({ agent }, { submissionId }) {
    const retried = await agent.retrySubmission(submissionId);
    if (!retried) return NOT_FOUND;
    return retried.accepted ? done() : UNCHANGED;
  },
  /** The new one. */
  after: (operated, { submissionId }) =>
    operated.agent.inspectSubmission(retriedBy(operated, submissionId) ?? submissionId),
};

/** The submission that a retry has made of this one, if it is stored. */
function retriedBy(operated: OperatedAgent, submissionId: string): string | undefined {
  const { store } = ledgerOf(operated);
  const { retriedBy: id } = store.find(submissionId) ?? {};
  return id !== undefined && store.find(id)?.isRetry ? id : undefined;
}

const redrive: ItemVerb<DeliveryAction> = {
  id: ({ deliveryId }) => deliveryId,
  async look({ agent, clock }, { deliveryId }) {
    const found = await agent.outbox.inspect(deliveryId);
    if (!found) return NOT_FOUND;
    if (found.state === "waiting") return found.dueAt > clock.now() ? done() : UNCHANGED;
    return found.state === "dead" ? done() : UNCHANGED;
  },
  async act({ agent }, { deliveryId }) {
    if (await agent.outbox.redrive(deliveryId)) return done();
    const found = await agent.outbox.inspect(deliveryId);
    if (!found) return NOT_FOUND;
    return found.state === "dead" ? failed(deliveryId, DISABLED) : UNCHANGED;
  },
  after: ({ agent }, { deliveryId }) => agent.outbox.inspect(deliveryId),
};

/** Why a dead letter was not redriven. */
export const DISABLED = new Error("Its endpoint is disabled. Enable the endpoint first.");

const deleteDeadLetter: ItemVerb<DeliveryAction> = {
  id: ({ deliveryId }) => deliveryId,
  async look({ agent }, { deliveryId }) {
    const found = await agent.outbox.inspect(deliveryId);
    return found?.state === "dead" ? done() : NOT_FOUND;
  },
  act: async ({ agent }, { deliveryId }) =>
    (await agent.outbox.deleteDeadLetter(deliveryId)) ? done() : NOT_FOUND,
  after: async () => undefined,
};

const endpoint = {
  id: ({ url }: EndpointAction) => url,
  after: ({ agent }: OperatedAgent, { url }: EndpointAction) => agent.outbox.inspectEndpoint(url),
};

const enableEndpoint: ItemVerb<EndpointAction> = {
  ...endpoint,
  async look({ agent }, { url }) {
    const { state } = await agent.outbox.inspectEndpoint(url);
    return state === "healthy" ? UNCHANGED : done();
  },
  act: (operated, action) =>
    oneByOne(operated, `endpoint ${action.url}`, async () => {
      const effect = await enableEndpoint.look(operated, action);
      if (effect.outcome === "done") await operated.agent.outbox.enableEndpoint(action.url);
      return effect;
    }),
};

const disableEndpoint: ItemVerb<EndpointAction> = {
  ...endpoint,
  async look({ agent }, { url }) {
    const { state } = await agent.outbox.inspectEndpoint(url);
    return state === "disabled" ? UNCHANGED : done();
  },
  act: (operated, action, { reason }) =>
    oneByOne(operated, `endpoint ${action.url}`, async () => {
      const effect = await disableEndpoint.look(operated, action);
      if (effect.outcome === "done")
        await operated.agent.outbox.disableEndpoint(action.url, reason);
      return effect;
    }),
};

const replay: ItemVerb<ReplayAction> = {
  id: ({ source, id }) => `${source}/${id}`,
  look: async ({ agent }, { source, id }) =>
    (await agent.inbound.inspect(source, id)) ? done() : NOT_FOUND,
  async act({ agent }, { source, id }) {
    const replayed = await agent.inbound.replay(source, id);
    if (!replayed) return NOT_FOUND;
    const { verdict, error } = replayed;
    if (verdict === "refused") {
      return failed(`${source}/${id}`, new Error(error?.message ?? "It was refused."));
    }
    return verdict === "accepted" ? done() : UNCHANGED;
  },
  after: ({ agent }, { source, id }) => agent.inbound.inspect(source, id),
};

type Decision = Of<"approve"> | Of<"reject">;

/** The effect of a decision on an approval: a repetition changes nothing, and an earlier decision stays. */
function decisionOn({ approvalId, status }: Approval, action: Decision["do"]): Effect {
  if (status === "pending") return done();
  const isAlreadyDecided = status === (action === "approve" ? "approved" : "rejected");
  return isAlreadyDecided ? UNCHANGED : failed(approvalId, new Error(`It is ${status} already.`));
}

function effectOf(result: ApprovalDecisionResult, action: Decision["do"]): Effect {
  if (result.outcome === "not_found") return NOT_FOUND;
  return result.outcome === "decided" ? done() : decisionOn(result.approval, action);
}

const approval = {
  id: ({ approvalId }: Decision) => approvalId,
  async look({ agent }: OperatedAgent, { approvalId, do: action }: Decision) {
    const found = await agent.approvals.inspect(approvalId);
    return found ? decisionOn(found, action) : NOT_FOUND;
  },
  after: ({ agent }: OperatedAgent, { approvalId }: Decision) =>
    agent.approvals.inspect(approvalId),
};

const approve: ItemVerb<Of<"approve">> = {
  ...approval,
  async act({ agent }, { approvalId, payload }, { by, reason }) {
    const options = { by, reason, ...(payload !== undefined && { payload }) };
    return effectOf(await agent.approvals.grant(approvalId, options), "approve");
  },
};

const reject: ItemVerb<Of<"reject">> = {
  ...approval,
  act: async ({ agent }, { approvalId }, { by, reason }) =>
    effectOf(await agent.approvals.reject(approvalId, { by, reason }), "reject"),
};

const clearThread: ItemVerb<Of<"clear-thread">> = {
  id: ({ thread }) => thread,
  async look(operated, { thread }) {
    checkNamedThread(thread);
    const { open, messages } = await contentsOf(operated, thread);
    return open + messages > 0 ? done() : UNCHANGED;
  },
  act: (operated, action) =>
    oneByOne(operated, `thread ${action.thread}`, async () => {
      const effect = await clearThread.look(operated, action);
      if (effect.outcome === "done") await operated.agent.clearThread(action.thread);
      return effect;
    }),
  after: async (operated, { thread }) =>
    // The conversation of an agent may be large, and cannot be cleared here.
    thread === MAIN ? undefined : { thread, ...(await contentsOf(operated, thread)) },
};

async function contentsOf(operated: OperatedAgent, thread: string) {
  const messages = await operated.agent.threadMessages(thread);
  const { sql } = ledgerOf(operated).store.storage;
  return { open: countOpen(sql, thread), messages: messages.length };
}

/** By the name of the action. */
export const ITEM_VERBS = {
  cancel,
  retry,
  redrive,
  "delete-dead-letter": deleteDeadLetter,
  "enable-endpoint": enableEndpoint,
  "disable-endpoint": disableEndpoint,
  replay,
  approve,
  reject,
  "clear-thread": clearThread,
};
