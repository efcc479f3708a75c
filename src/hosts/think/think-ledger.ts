/**
 * Submissions that Think itself has accepted: before the app extended DurableThink, or for a workflow that still extends
 * Think's ThinkWorkflow. Think's own code runs them. This class finds them by Think's documented methods.
 */

import { Think, type ThinkSubmissionInspection } from "@cloudflare/think";
import type { UIMessage } from "ai";
import { instantMs } from "../../core/options/instant.ts";
import { isPlainObject } from "../../core/options/options.ts";
import type { InstanceOf } from "../../outbox/destinations/workflow-event.ts";
import { SubmissionIdentityError } from "../../submissions/errors.ts";
import { checkId } from "../../submissions/intake/request.ts";
import { isTerminal } from "../../submissions/states.ts";
import type { SubmitMessagesOptions } from "../../submissions/submit-options.ts";
import { MAIN } from "../../submissions/threads.ts";
import type {
  CancelSubmissionResult,
  DeleteSubmissionsOptions,
  ListSubmissionsOptions,
  PromptEnd,
  SubmissionInspection,
  SubmissionStats,
  SubmitMessagesResult,
  WaitForSubmissionOptions,
} from "../../submissions/types.ts";
import { NOT_FOUND } from "../../workflow/waits/kinds/prompt.ts";
import { textOf as replyText } from "../sdk/conversation.ts";

const MOST_LISTED = 100;
/** How long an interrupted turn is waited for: Think may continue it, or leave it as it is. */
const RECOVERY_MS = 60_000;
const OPEN = ["pending", "running"] satisfies SubmissionInspection["status"][];

const own = Think.prototype;

export class ThinkLedger {
  /** Undefined until the first look since the last start. */
  #isEmpty: boolean | undefined;
  #hasWarned = false;

  // Private like this, the declarations of hosts without Think do not name it.
  readonly #agent: Think;

  constructor(agent: object) {
    this.#agent = agent as Think;
  }

  #inspectionOf(found: ThinkSubmissionInspection): SubmissionInspection {
    return inspectionOf(found, this.#agent.messages);
  }

  /** Whether Think has no submissions. Then it is not asked again. */
  async isEmpty(): Promise<boolean> {
    this.#isEmpty ??= (await own.listSubmissions.call(this.#agent, { limit: 1 })).length === 0;
    return this.#isEmpty;
  }

  /** Whether this is a prompt of Think's own ThinkWorkflow, which waits for Think's event. */
  isThinkPrompt(options: SubmitMessagesOptions | null): boolean {
    if (!isPlainObject(options) || !isPlainObject(options.metadata)) return false;
    const { __thinkWorkflowPrompt: prompt } = options.metadata;
    if (!isPlainObject(prompt) || !isPlainObject(prompt.workflow)) return false;
    return Object.keys(options).every((name) => name === "idempotencyKey" || name === "metadata");
  }

  /** Lets Think accept a submission, run it and notify the workflow. */
  async submit(
    messages: UIMessage[],
    { idempotencyKey, metadata }: SubmitMessagesOptions,
  ): Promise<SubmitMessagesResult> {
    if (!this.#hasWarned) {
      this.#hasWarned = true;
      console.warn(
        `[perdure] a workflow prompts the agent ${JSON.stringify(this.#agent.name)} by ThinkWorkflow of @cloudflare/think/workflows ` +
          `(${idempotencyKey}). Think runs such prompts without the guarantees of Perdure. ` +
          "Import ThinkWorkflow from perdure/workflow.",
      );
    }
    this.#isEmpty = false;
    const found = await own.submitMessages.call(this.#agent, messages, {
      ...(idempotencyKey !== undefined && { idempotencyKey }),
      ...(metadata && { metadata }),
    });
    return { ...this.#inspectionOf(found), accepted: found.accepted };
  }

  /**
   * The submission that Think has accepted with this id or key, or null.
   * @throws SubmissionIdentityError if they name different submissions
   */
  async find(
    options: Pick<SubmitMessagesOptions, "submissionId" | "idempotencyKey"> | null,
  ): Promise<SubmissionInspection | null> {
    // The ledger refuses what is not a text.
    const [submissionId, idempotencyKey] = [options?.submissionId, options?.idempotencyKey].map(
      (value) => (typeof value === "string" ? value : undefined),
    );
    if (submissionId === undefined && idempotencyKey === undefined) return null;
    if (await this.isEmpty()) return null;
    const byKey = idempotencyKey === undefined ? null : await this.#findByKey(idempotencyKey);
    if (submissionId === undefined || byKey?.submissionId === submissionId) return byKey;
    const byId = await this.inspect(submissionId);
    const isOther = byKey !== null || (byId?.idempotencyKey ?? idempotencyKey) !== idempotencyKey;
    if (idempotencyKey !== undefined && isOther) {
      throw new SubmissionIdentityError(submissionId, idempotencyKey);
    }
    return byId;
  }

  /** Think has no method that finds a key. So it is asked to submit again, with metadata that throws when it is stored. */
  async #findByKey(idempotencyKey: string): Promise<SubmissionInspection | null> {
    checkId("idempotencyKey", idempotencyKey);
    const isNew = new Error("Think does not know the key");
    const toJSON = () => {
      throw isNew;
    };
    const message: UIMessage = { id: idempotencyKey, role: "user", parts: [] };
    try {
      const options = { idempotencyKey, metadata: { toJSON } };
      return this.#inspectionOf(await own.submitMessages.call(this.#agent, [message], options));
    } catch (error) {
      if (error === isNew) return null;
      throw error;
    }
  }

  async inspect(submissionId: string): Promise<SubmissionInspection | null> {
    if (await this.isEmpty()) return null;
    checkId("submissionId", submissionId);
    const found = await own.inspectSubmission.call(this.#agent, submissionId);
    return found && this.#inspectionOf(found);
  }

  /** Of the latest hundred submissions of each status, those that match, newest first. */
  async list(options: ListSubmissionsOptions = {}): Promise<SubmissionInspection[]> {
    if (await this.isEmpty()) return [];
    const { status, before, limit = MOST_LISTED } = options;
    const found = await own.listSubmissions.call(this.#agent, {
      limit: MOST_LISTED,
      ...(status !== undefined && { status }),
    });
    const from = found.findIndex(({ submissionId }) => submissionId === before) + 1;
    const matching = found.slice(from).map((one) => this.#inspectionOf(one));
    return matching.filter((one) => isListed(one, options)).slice(0, limit);
  }

  async cancel(submissionId: string, reason?: unknown): Promise<CancelSubmissionResult> {
    if (await this.isEmpty()) return { outcome: "not_found", submissionId };
    const result = await own.cancelSubmission.call(this.#agent, submissionId, reason);
    if (result.outcome === "not_found") return result;
    return { ...result, submission: this.#inspectionOf(result.submission) };
  }

  async wait(
    submissionId: string,
    options: WaitForSubmissionOptions,
  ): Promise<SubmissionInspection | null> {
    if (await this.isEmpty()) return null;
    const found = await own.waitForSubmission.call(this.#agent, submissionId, options);
    return found && this.#inspectionOf(found);
  }

  async delete(submissionId: string): Promise<boolean> {
    return !(await this.isEmpty()) && own.deleteSubmission.call(this.#agent, submissionId);
  }

  async deleteMany({ completedBefore, ...options }: DeleteSubmissionsOptions): Promise<number> {
    if (await this.isEmpty()) return 0;
    const before = instantMs(completedBefore);
    return own.deleteSubmissions.call(this.#agent, {
      ...options,
      ...(before !== undefined && { completedBefore: new Date(before) }),
    });
  }

  /** The open submissions, up to a hundred of each status. */
  async stats(): Promise<SubmissionStats> {
    const open = await this.list({ status: OPEN });
    const pending = open.filter(({ status }) => status === "pending");
    const oldest = pending.at(-1)?.createdAt;
    return {
      pending: pending.length,
      running: open.length - pending.length,
      ...(oldest !== undefined && { oldestPendingAt: oldest }),
    };
  }

  async cancelFor({ workflow, instance }: InstanceOf, reason: string): Promise<void> {
    for (const { submissionId, idempotencyKey } of await this.list({ status: OPEN })) {
      if (!idempotencyKey?.startsWith(`think-workflow:${workflow}:${instance}:`)) continue;
      await this.cancel(submissionId, reason);
    }
  }

  /** How a prompt has ended, or null while it has not; undefined if it is not Think's. Only Think's event has the answer. */
  async expirePrompt(
    submissionId: string,
    { cancel }: { cancel: boolean },
  ): Promise<PromptEnd | null | undefined> {
    let found = await this.inspect(submissionId);
    if (found && !isTerminal(found.status) && cancel) {
      const result = await this.cancel(submissionId, "Workflow prompt wait timed out");
      // As in the ledger: the step times out, unless the prompt has ended before.
      if (result.outcome === "cancelled") return null;
      found = await this.inspect(submissionId);
    }
    if (!found) return undefined;
    const { status, error } = found;
    if (status === "pending" || status === "running") return null;
    const ended = { submissionId, attempts: 1 };
    if (status !== "completed") return { ...ended, status, ...(error && { error }) };
    const noAnswer =
      `Think answered this prompt before the agent extended DurableThink (submission "${submissionId}"), for an ` +
      "earlier run, and keeps no answers. Restart the workflow to ask again.";
    return { ...ended, status: "error", errorName: NOT_FOUND, error: noAnswer };
  }

  /**
   * Whether a turn is that of a submission behind which others of Think wait, or ran already. Think would continue the reply
   * of one of those.
   */
  async isOvertaken(requestId: string): Promise<boolean> {
    const left = await this.inspect(requestId);
    if (left?.status !== "running") return false;
    const newest = await this.list();
    const at = newest.findIndex(({ submissionId }) => submissionId === left.submissionId);
    const later = at < 0 ? newest : newest.slice(0, at);
    return later.some((one) => one.status === "pending" || one.startedAt !== undefined);
  }

  /** Resolves when all earlier submissions of Think have ended: what was accepted first runs first. */
  async caughtUp(signal: AbortSignal): Promise<void> {
    const earlier = (await this.list({ status: OPEN })).toReversed();
    const aborted = Promise.withResolvers<void>();
    const stop = () => aborted.resolve();
    signal.addEventListener("abort", stop, { once: true });
    for (const { submissionId, status } of earlier) {
      if (signal.aborted) break;
      // A running one is in Think's queue of turns, unless a crash has interrupted it.
      const limit = status === "running" ? { timeoutMs: RECOVERY_MS } : {};
      await Promise.race([this.wait(submissionId, limit), aborted.promise]);
    }
    signal.removeEventListener("abort", stop);
  }
}

/** In the form of the ledger. Think has one conversation, and attempts a turn once. */
export function inspectionOf(
  found: ThinkSubmissionInspection,
  conversation: readonly UIMessage[],
): SubmissionInspection {
  const { status, createdAt, requestId, startedAt, completedAt, messageId, error } = found;
  const common = {
    submissionId: found.submissionId,
    requestId: requestId ?? found.submissionId,
    createdAt,
    attempts: status === "pending" ? 0 : 1,
    thread: MAIN,
    ...(found.idempotencyKey !== undefined && { idempotencyKey: found.idempotencyKey }),
    // Think stores it as JSON.
    ...(found.metadata && {
      metadata: found.metadata as NonNullable<SubmissionInspection["metadata"]>,
    }),
  };
  if (status === "pending") return { ...common, status };
  if (status === "running") return { ...common, status, startedAt: startedAt ?? createdAt };
  const ended = {
    ...common,
    completedAt: completedAt ?? createdAt,
    ...(startedAt !== undefined && { startedAt }),
    ...(messageId !== undefined && { messageId }),
  };
  if (status === "completed") {
    return { ...ended, status, output: replyText(conversation.find(({ id }) => id === messageId)) };
  }
  return { ...ended, status, ...(error !== undefined && { error }) };
}

function isListed(
  { createdAt, metadata: own = {} }: SubmissionInspection,
  { thread = MAIN, metadata = {}, createdAfter, createdBefore }: ListSubmissionsOptions,
): boolean {
  return (
    thread === MAIN &&
    createdAt >= (instantMs(createdAfter) ?? 0) &&
    createdAt < (instantMs(createdBefore) ?? Number.POSITIVE_INFINITY) &&
    Object.entries(metadata).every(([key, value]) => own[key] === value)
  );
}
