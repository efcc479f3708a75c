/** The kind `approval`, for `step.approval()`: a person decides. The request, the list, and the first decision, which counts. */

import * as z from "zod";
import {
  HALF_CHARACTER,
  type Json,
  jsonTextOf,
  malformedKeyIn,
  preview,
} from "../../../core/json.ts";
import {
  count,
  flag,
  optionsOf,
  readOptions,
  someOf,
  text,
} from "../../../core/options/option-schemas.ts";
import { invalidMessage } from "../../../core/options/options.ts";
import { mismatchesOf } from "../../../core/schema/json-schema.ts";
import type { Page } from "../../../engine/page.ts";
import type { Destination } from "../../../outbox/destinations/index.ts";
import { InvalidDestinationError } from "../../../outbox/errors.ts";
import { InvalidApprovalError } from "../errors.ts";
import type { Closing, StoredKind, Wait } from "../protocol.ts";
import { GRACE_MS, type KindUses, type Waits } from "../waits.ts";
import type {
  Approval,
  ApprovalDecisionResult,
  ApprovalRequest,
  ApprovalRequestEvent,
  ApprovalStatus,
  GrantApprovalOptions,
  LinkApprovalOptions,
  ListApprovalsOptions,
  RejectApprovalOptions,
} from "./approval-types.ts";

const MOST_DECISION_BYTES = 1_000_000;
const MOST_NOTIFIED = 10;

/** The statuses of a wait, in the words of an approval. */
export const STATUS_OF = {
  open: "pending",
  completed: "approved",
  rejected: "rejected",
  expired: "expired",
  cancelled: "cancelled",
  failed: "refused",
} as const satisfies Record<Wait["status"], ApprovalStatus>;

type Decided = Pick<Approval, "by" | "reason" | "payload">;

/** The request of a wait of kind `approval`, for a step or for a kind of wait that has to ask a person. */
export function approvalRequest({
  title = null,
  data = null,
  schema = null,
}: {
  title?: string | null;
  data?: Json | undefined;
  schema?: Json | undefined;
}): ApprovalRequest {
  return { title, data, schema };
}

export const KINDS = {
  /** A later run asks the person again. */
  approval: (uses: Pick<KindUses, "onApproval" | "outbox" | "linkOf">): StoredKind => ({
    answersLaterRuns: () => false,
    endsWithRun: true,
    // A person who was shown one request has not agreed to another.
    asksAnew: true,
    check: async (request) => {
      readOptions(REQUEST, request, "request of an approval", invalid);
    },
    opening: async (waitId, request) => notifying(uses, { waitId, request }),
    announce: (wait) => uses.onApproval(approvalOf(wait)),
  }),
};

/**
 * Signs the links of a request that has destinations. What it returns stores a delivery for each of them.
 *
 * @throws InvalidDestinationError, InvalidApprovalError, FeatureNotInstalledError
 */
async function notifying(
  { outbox, linkOf }: Pick<KindUses, "outbox" | "linkOf">,
  wait: Pick<Wait, "waitId" | "request">,
): Promise<((wait: Wait) => void) | undefined> {
  const { notify, link = {} as LinkApprovalOptions } = wait.request as ApprovalRequest;
  if (notify === undefined || notify.length === 0) return undefined;
  const destinations = notify as unknown as readonly Destination[];
  for (const [index, to] of destinations.entries()) {
    const problem = outbox.problemOf(to, `notify[${index}]`);
    if (problem) throw new InvalidDestinationError(problem);
  }
  const { payload: _, ...ofReject } = link || {};
  const links = link && {
    grant: await linkOf(wait, "grant", link),
    reject: await linkOf(wait, "reject", ofReject),
  };
  return (opened) => {
    const { approvalId, title, data, refusal, workflow, createdAt, expiresAt } = approvalOf(opened);
    const event: ApprovalRequestEvent = {
      type: "approval.requested",
      timestamp: new Date(createdAt).toISOString(),
      data: {
        ...{ approvalId, title, data, workflow, expiresAt },
        ...(refusal && { refusal }),
        ...(links && { links }),
      },
    };
    const payload = JSON.stringify(event);
    for (const [index, to] of destinations.entries())
      outbox.enqueue(`approval:${approvalId}/${index}`, to, payload);
  };
}

function approvalOf(wait: Wait): Approval {
  const { waitId, workflow, createdAt, expiresAt, settledAt, status } = wait;
  const { title, data, schema, refusal } = wait.request as ApprovalRequest;
  return {
    approvalId: waitId,
    status: STATUS_OF[status],
    title,
    data,
    schema,
    ...(refusal && { refusal }),
    workflow,
    createdAt,
    expiresAt: expiresAt - GRACE_MS,
    ...(settledAt !== undefined && { decidedAt: settledAt }),
    ...decidedOf(wait),
  };
}

/** The decision, and by whom. An approval that was closed without one has the reason as an `error`. */
function decidedOf({ result }: Wait): Decided {
  type Result = Decided & { readonly error?: string; readonly isApproved?: true };
  const { error, isApproved: _, ...decided } = (result ?? {}) as Result;
  return error === undefined ? decided : { reason: error };
}

export class Approvals {
  constructor(
    private readonly waits: Waits,
    /**
     * A signed URL that decides an approval once. It shows a page that asks, and changes nothing before its button is pressed.
     * The Worker serves it by `links()` of `perdure/webhooks`.
     * @throws InvalidApprovalError for an unknown approval, or a payload that it does not take; FeatureNotInstalledError
     *   without signedLinks()
     */
    readonly link: (
      approvalId: string,
      decision: "grant" | "reject",
      options?: LinkApprovalOptions,
    ) => Promise<string>,
  ) {}

  /**
   * Newest first.
   *
   * @throws InvalidApprovalError for what cannot be asked by
   */
  async list(options: ListApprovalsOptions = {}): Promise<Page<Approval>> {
    const query = readOptions(LIST, options, "options of approvals.list()", invalid);
    const { status, workflowId: instance, limit, cursor: before } = query;
    const wanted = new Set(status);
    const all = Object.keys(STATUS_OF) as Wait["status"][];
    const statuses = all.filter((one) => wanted.has(STATUS_OF[one]));
    if (before !== undefined && !(await this.#find(before))) {
      const problem = "expected an approval that exists. Begin again with the first page";
      throw invalid("cursor", invalidMessage("cursor", preview(before), problem));
    }
    const isPending = statuses.every((one) => one === "open");
    const only = isPending ? { isOpen: true } : { statuses };
    const page = await this.waits.list({ kind: "approval", ...only, instance, before, limit });
    return { ...page, items: page.items.map(approvalOf) };
  }

  async inspect(approvalId: string): Promise<Approval | null> {
    const wait = await this.#find(approvalId);
    return wait ? approvalOf(wait) : null;
  }

  /** @throws InvalidApprovalError for what the approval does not take; it stays pending then, and nothing is stored */
  async grant(
    approvalId: string,
    options: GrantApprovalOptions = {},
  ): Promise<ApprovalDecisionResult> {
    const decision = readOptions(GRANT, options, "options of approvals.grant()", invalid);
    return this.#decide(approvalId, (wait) => {
      checkPayload(decision.payload, wait);
      return { status: "completed", result: decision };
    });
  }

  /** @throws InvalidApprovalError for a `by` or a `reason` that is no text; nothing is stored then */
  async reject(
    approvalId: string,
    options: RejectApprovalOptions = {},
  ): Promise<ApprovalDecisionResult> {
    const result = readOptions(REJECT, options, "options of approvals.reject()", invalid);
    return this.#decide(approvalId, () => ({ status: "rejected", result }));
  }

  /** The first decision closes the wait; any other finds it closed. */
  async #decide(
    approvalId: string,
    closingOf: (wait: Wait) => Closing,
  ): Promise<ApprovalDecisionResult> {
    const wait = await this.#find(approvalId);
    if (!wait) return { outcome: "not_found", approvalId };
    if (wait.status !== "open") return { outcome: "already_decided", approval: approvalOf(wait) };
    const closing = closingOf(wait);
    checkDecision(closing.result);
    await this.waits.cancelIfGone(wait);
    const closed = await this.waits.settle(approvalId, closing);
    if (closed) return { outcome: "decided", approval: approvalOf(closed) };
    const now = (await this.#find(approvalId)) ?? wait;
    return { outcome: "already_decided", approval: approvalOf(now) };
  }

  async #find(approvalId: string): Promise<Wait | undefined> {
    readOptions(text(), approvalId, "approvalId", invalid);
    await this.waits.ready();
    const wait = this.waits.find(approvalId);
    return wait?.kind === "approval" ? wait : undefined;
  }
}

const REQUEST = z.looseObject({
  title: text({ empty: true }).nullable(),
  schema: z.looseObject({}, { error: "expected a JSON Schema, or null" }).nullable(),
  isOptional: flag().optional(),
  notify: z
    .custom<Json[]>((list) => Array.isArray(list) && list.length <= MOST_NOTIFIED, {
      error: `expected a list of at most ${MOST_NOTIFIED} destinations`,
    })
    .optional(),
});
const LIST = optionsOf<ListApprovalsOptions>()({
  status: someOf<ApprovalStatus>([...new Set(Object.values(STATUS_OF))], { min: 0 }).default([
    "pending",
  ]),
  workflowId: text().optional(),
  limit: count({ max: 100 }).default(50),
  cursor: text().optional(),
});
const DECISION = { by: text().optional(), reason: text().optional() };
const REJECT = optionsOf<RejectApprovalOptions>()(DECISION);
const GRANT = optionsOf<GrantApprovalOptions>()({ payload: z.unknown().optional(), ...DECISION });

function invalid(field: string, message: string): InvalidApprovalError {
  return new InvalidApprovalError(field, message);
}

/**
 * The workflow has the schema itself, and checks again: what only it can know is found there.
 * @throws InvalidApprovalError
 */
export function checkPayload(
  payload: Json | undefined,
  wait: Pick<Wait, "waitId" | "request">,
): void {
  const { schema, check = schema, isOptional } = wait.request as ApprovalRequest;
  const refuse = (problem: string) =>
    invalid("payload", invalidMessage("payload", preview(payload), problem));
  if (schema === null) {
    if (payload === undefined) return;
    throw refuse(
      `expected no payload, because the step of the approval ${wait.waitId} has no schema. Omit it, and use reason`,
    );
  }
  const isMissing = payload === undefined && !isOptional;
  const problems = isMissing
    ? ["payload: is missing"]
    : mismatchesOf("payload", payload, check as object);
  if (problems.length === 0) return;
  throw refuse(
    `it does not match the schema of the approval ${wait.waitId}: ${problems.join("; ")}. ` +
      "Correct the payload and decide again",
  );
}

function checkDecision(result: Json): void {
  const refuse = (message: string) => invalid("payload", message);
  jsonTextOf("payload", result, { maxBytes: MOST_DECISION_BYTES, refuse });
  const malformed = malformedKeyIn(result);
  if (malformed !== undefined)
    throw refuse(`Invalid key ${preview(malformed)} in payload, ${HALF_CHARACTER}`);
}
