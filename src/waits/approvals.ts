/**
 * Approvals: the gates that a person opens. What is asked, how it is listed,
 * and the one decision that counts. The row is a gate's; nothing else is stored.
 */

import { byteLength, HALF_CHARACTER, type Json, malformedKeyIn, shown } from "../core/json.ts";
import { mismatchesOf } from "../core/json-schema.ts";
import { problemOfNames } from "../core/options.ts";
import { isWellFormedText } from "../core/text.ts";
import type {
  Approval,
  ApprovalDecisionResult,
  ApprovalRequest,
  ApprovalStatus,
  GrantApprovalOptions,
  ListApprovalsOptions,
  RejectApprovalOptions,
} from "./approval-types.ts";
import { InvalidApprovalError } from "./errors.ts";
import { type Gates, GRACE_MS } from "./gates.ts";
import type { Closing, Gate, GateKind } from "./types.ts";

/** A person is asked, and the list of what is asked is read whole. */
const MOST_LISTED = 100;
const DEFAULT_LISTED = 50;
/** Bytes of what a decision says, as JSON: well within what a gate's result may have. */
const MOST_DECISION_BYTES = 1_000_000;

/** The statuses of a gate, in the words of an approval. */
const STATUS_OF = {
  open: "pending",
  completed: "approved",
  rejected: "rejected",
  expired: "expired",
  cancelled: "cancelled",
  failed: "refused",
} as const satisfies Record<Gate["status"], ApprovalStatus>;

const STATUSES = [...new Set<ApprovalStatus>(Object.values(STATUS_OF))];

/** What a decision leaves in the gate. */
type Decided = Pick<Approval, "by" | "reason" | "payload">;

/** The request of a gate of kind `approval`, for a step or for a kind of gate that has to ask a person. */
export function approvalRequest(ask: {
  title?: string | undefined;
  data?: Json | undefined;
  /** JSON Schema of what approving takes. */
  schema?: Json | undefined;
}): ApprovalRequest {
  const { title = null, data = null, schema = null } = ask;
  return { title, data, schema };
}

/** How gates of this kind behave: nothing is driven, and a person who has answered an earlier run is asked again (W1). */
export function approvalKind(tell: (approval: Approval) => void | Promise<void>): GateKind {
  return {
    answersLaterRuns: () => false,
    // Whoever has been shown one thing has not agreed to another.
    asksAnew: true,
    announce: (gate) => tell(approvalOf(gate)),
  };
}

/** A gate of kind `approval`, as people see it. */
function approvalOf(gate: Gate): Approval {
  const { gateId, workflow, createdAt, expiresAt, settledAt, status } = gate;
  const asked = gate.request as ApprovalRequest;
  const { by, reason, payload } = decidedOf(gate);
  return {
    approvalId: gateId,
    status: STATUS_OF[status],
    title: asked.title,
    data: asked.data,
    schema: asked.schema,
    ...(asked.refusal && { refusal: asked.refusal }),
    workflow,
    createdAt,
    expiresAt: expiresAt - GRACE_MS,
    ...(settledAt !== undefined && { decidedAt: settledAt }),
    ...(by !== undefined && { by }),
    ...(reason !== undefined && { reason }),
    ...(payload !== undefined && { payload }),
  };
}

/** Where it was closed by no decision, its result says why as an `error`. */
function decidedOf({ result }: Gate): Decided {
  const { error, ...decided } = (result ?? {}) as Decided & { readonly error?: string };
  return error === undefined ? decided : { reason: error };
}

export class Approvals {
  constructor(private readonly gates: Gates) {}

  /**
   * Newest first.
   *
   * @throws InvalidApprovalError for what cannot be asked by
   */
  async list(options: ListApprovalsOptions = {}): Promise<Approval[]> {
    const problem = problemOfNames("listApprovals()", options, LIST_NAMES);
    if (problem) throw new InvalidApprovalError(problem.name, problem.message);
    const { status = "pending", workflowId, limit = DEFAULT_LISTED, before } = options;
    checkText("workflowId", workflowId);
    checkText("before", before);
    if (!Number.isInteger(limit) || limit < 1 || limit > MOST_LISTED) {
      throw new InvalidApprovalError(
        "limit",
        `limit is ${shown(limit)}; expected a whole number from 1 to ${MOST_LISTED}.`,
      );
    }
    const statuses = gateStatusesOf([status].flat());
    if (before !== undefined && !(await this.#find(before))) {
      throw new InvalidApprovalError(
        "before",
        `There is no approval ${shown(before)}: it was forgotten. Begin again with the first page.`,
      );
    }
    const isPending = statuses.every((one) => one === "open");
    const found = await this.gates.list({
      kind: "approval",
      ...(isPending ? { isOpen: true } : { statuses }),
      instance: workflowId,
      before,
      limit,
    });
    return found.map(approvalOf);
  }

  async inspect(approvalId: string): Promise<Approval | null> {
    const gate = await this.#find(approvalId);
    return gate ? approvalOf(gate) : null;
  }

  /** @throws InvalidApprovalError for what the approval does not take; it stays pending then, and nothing is stored */
  async grant(
    approvalId: string,
    options: GrantApprovalOptions = {},
  ): Promise<ApprovalDecisionResult> {
    const decided = decisionOf("grantApproval()", options, ["payload", "by", "reason"]);
    return this.#decide(approvalId, (gate) => {
      checkPayload(options.payload, gate);
      const { payload } = options;
      return {
        status: "completed",
        result: { ...decided, ...(payload !== undefined && { payload }) },
      };
    });
  }

  /** @throws InvalidApprovalError for a `by` or a `reason` that is no text; nothing is stored then */
  async reject(
    approvalId: string,
    options: RejectApprovalOptions = {},
  ): Promise<ApprovalDecisionResult> {
    const result = decisionOf("rejectApproval()", options, ["by", "reason"]);
    return this.#decide(approvalId, () => ({ status: "rejected", result }));
  }

  /** The first decision closes the gate; any other finds it closed (W3). */
  async #decide(
    approvalId: string,
    closingOf: (gate: Gate) => Closing,
  ): Promise<ApprovalDecisionResult> {
    const gate = await this.#find(approvalId);
    if (!gate) return { outcome: "not_found", approvalId };
    if (gate.status !== "open") return { outcome: "already_decided", approval: approvalOf(gate) };
    const closing = closingOf(gate);
    checkDecision(closing.result);
    await this.gates.cancelIfGone(gate);
    const closed = await this.gates.close(approvalId, closing);
    if (closed) return { outcome: "decided", approval: approvalOf(closed) };
    const now = (await this.#find(approvalId)) ?? gate;
    return { outcome: "already_decided", approval: approvalOf(now) };
  }

  async #find(approvalId: string): Promise<Gate | undefined> {
    checkText("approvalId", approvalId);
    const gate = await this.gates.find(approvalId);
    return gate?.kind === "approval" ? gate : undefined;
  }
}

const LIST_NAMES = [
  "status",
  "workflowId",
  "limit",
  "before",
] as const satisfies readonly (keyof ListApprovalsOptions)[];

function gateStatusesOf(statuses: readonly ApprovalStatus[]): Gate["status"][] {
  const unknown = statuses.find((status) => !STATUSES.includes(status));
  if (unknown !== undefined) {
    throw new InvalidApprovalError(
      "status",
      `${shown(unknown)} is no status of an approval; one of ${STATUSES.join(", ")}.`,
    );
  }
  const all = Object.keys(STATUS_OF) as Gate["status"][];
  return all.filter((status) => statuses.includes(STATUS_OF[status]));
}

/** Who decides and why, checked. */
function decisionOf(
  verb: string,
  options: GrantApprovalOptions,
  names: readonly (keyof GrantApprovalOptions)[],
): { by?: string; reason?: string } {
  const problem = problemOfNames(verb, options, names);
  if (problem) throw new InvalidApprovalError(problem.name, problem.message);
  const { by, reason } = options;
  checkText("by", by);
  checkText("reason", reason);
  return { ...(by !== undefined && { by }), ...(reason !== undefined && { reason }) };
}

function checkText(field: string, value: unknown): void {
  if (value === undefined) return;
  if (typeof value !== "string" || value === "") {
    throw new InvalidApprovalError(
      field,
      `${field} is ${shown(value)}; expected a non-empty string, or leave it out.`,
    );
  }
  if (isWellFormedText(value)) return;
  throw new InvalidApprovalError(field, `${field} is ${shown(value)}, ${HALF_CHARACTER}`);
}

/** The workflow has the schema itself, and checks again: what only it can know is found there. */
function checkPayload(payload: Json | undefined, gate: Gate): void {
  const { schema, check = schema, isOptional } = gate.request as ApprovalRequest;
  if (schema === null) {
    if (payload === undefined) return;
    throw new InvalidApprovalError(
      "payload",
      `payload is ${shown(payload)}, and the approval ${gate.gateId} takes none: its step has no schema. ` +
        "Leave it out, and say why in reason.",
    );
  }
  const isMissing = payload === undefined && !isOptional;
  const problems = isMissing
    ? ["payload: is missing"]
    : mismatchesOf("payload", payload, check as object);
  if (problems.length === 0) return;
  throw new InvalidApprovalError(
    "payload",
    `payload is ${shown(payload)}, and does not match the schema of the approval ${gate.gateId}: ${problems.join("; ")}. ` +
      "The approval is still pending: correct the payload and decide again.",
  );
}

function checkDecision(result: Json): void {
  let bytes: number;
  let malformed: string | undefined;
  try {
    bytes = byteLength(JSON.stringify(result));
    malformed = malformedKeyIn(result);
  } catch (error) {
    throw new InvalidApprovalError(
      "payload",
      `payload cannot be stored as JSON: ${error instanceof Error ? error.message : String(error)}.`,
    );
  }
  if (malformed !== undefined) {
    throw new InvalidApprovalError(
      "payload",
      `payload has the key ${shown(malformed)}, ${HALF_CHARACTER}`,
    );
  }
  if (bytes <= MOST_DECISION_BYTES) return;
  throw new InvalidApprovalError(
    "payload",
    `The decision is ${bytes} bytes, and at most ${MOST_DECISION_BYTES} are taken. ` +
      "Keep the content elsewhere (R2, the agent's own tables) and pass a reference to it.",
  );
}
