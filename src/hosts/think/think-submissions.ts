/**
 * The ledger of a Think agent. Where it does not know a submission, it asks {@link ThinkLedger} for what Think itself has
 * accepted, so that nothing else has to know of both.
 */

import type { InstanceOf } from "../../outbox/destinations/workflow-event.ts";
import { InvalidSubmissionError } from "../../submissions/errors.ts";
import { isTerminal } from "../../submissions/states.ts";
import { Submissions } from "../../submissions/submissions.ts";
import type { SubmitItem } from "../../submissions/submit-options.ts";
import type {
  CancelSubmissionResult,
  DeleteSubmissionsOptions,
  ListSubmissionsOptions,
  OutputOfRef,
  SubmissionInspection,
  SubmissionStats,
  SubmitMessagesResult,
  WaitForSubmissionOptions,
} from "../../submissions/types.ts";
import { PromptKind } from "../../workflow/waits/kinds/prompt.ts";
import type { WaitRef } from "../../workflow/waits/protocol.ts";
import type { KindUses } from "../../workflow/waits/waits.ts";
import type { ThinkLedger } from "./think-ledger.ts";

type SubmissionOf<Ref extends string> = SubmissionInspection<OutputOfRef<Ref>> | null;

export class ThinkSubmissions extends Submissions {
  constructor(
    readonly think: ThinkLedger,
    ...ledger: ConstructorParameters<typeof Submissions>
  ) {
    super(...ledger);
  }

  /** Items that Think has accepted are answered by Think. */
  override async submitAll(
    items: readonly SubmitItem[],
    { verb, commit }: Parameters<Submissions["submitAll"]>[1] = {},
  ): Promise<SubmitMessagesResult[]> {
    if (!Array.isArray(items)) return super.submitAll(items, { verb });
    const known = await Promise.all(items.map((item) => this.#acceptedByThink(item)));
    const rest = items.filter((_, index) => !known[index]);
    const all = ([...accepted]: SubmitMessagesResult[]) =>
      known.map((found) => found ?? (accepted.shift() as SubmitMessagesResult));
    const write = commit && ((accepted: SubmitMessagesResult[]) => commit(all(accepted)));
    return all(await super.submitAll(rest, { verb, commit: write }));
  }

  async #acceptedByThink(item: SubmitItem | null): Promise<SubmitMessagesResult | null> {
    const { messages = [], options = null } = item ?? {};
    if (this.think.isThinkPrompt(options)) return this.think.submit(messages, options ?? {});
    const known = await this.think.find(options);
    return known && { ...known, accepted: false };
  }

  override listElsewhere(options: ListSubmissionsOptions): Promise<SubmissionInspection[]> {
    return this.think.list(options);
  }

  // Think's outputs are texts, and no id of Think's has another type.

  override async inspect<Ref extends string>(submissionId: Ref): Promise<SubmissionOf<Ref>> {
    const found = (await super.inspect(submissionId)) ?? (await this.think.inspect(submissionId));
    return found as SubmissionOf<Ref>;
  }

  override async wait<Ref extends string>(
    submissionId: Ref,
    options: WaitForSubmissionOptions = {},
  ): Promise<SubmissionOf<Ref>> {
    const found =
      (await super.wait(submissionId, options)) ?? (await this.think.wait(submissionId, options));
    return found as SubmissionOf<Ref>;
  }

  /** Its own, newest first; after them those of Think. */
  override async list(options: ListSubmissionsOptions = {}): Promise<SubmissionInspection[]> {
    const { think } = this;
    const { before, limit = 100 } = options ?? {};
    if (before !== undefined && (await think.inspect(before))) return think.list(options);
    const page = await super.list(options);
    if (page.length >= limit || (await think.isEmpty())) return page;
    // A page can be shorter than its limit and not the last.
    const last = page.at(-1)?.submissionId;
    const rest = last ? await super.list({ ...options, before: last, limit: 1 }) : [];
    if (rest.length > 0) return page;
    const { before: _, ...others } = options;
    return [...page, ...(await think.list({ ...others, limit: limit - page.length }))];
  }

  override async retry<Ref extends string>(
    submissionId: Ref,
  ): Promise<SubmitMessagesResult<OutputOfRef<Ref>> | null> {
    const again = await super.retry(submissionId);
    if (again || !(await this.think.inspect(submissionId))) return again;
    throw new InvalidSubmissionError(
      "submissionId",
      `Submission ${JSON.stringify(submissionId)} was accepted by Think, and its messages cannot be read. ` +
        "Submit them again, with another key.",
    );
  }

  override async stats(): Promise<SubmissionStats> {
    const [ours, thinks] = [await super.stats(), await this.think.stats()];
    const since = [ours, thinks].flatMap(({ oldestPendingAt: at }) => (at === undefined ? [] : at));
    return {
      pending: ours.pending + thinks.pending,
      running: ours.running + thinks.running,
      ...(since.length > 0 && { oldestPendingAt: Math.min(...since) }),
    };
  }

  override async cancel(submissionId: string, reason?: unknown): Promise<CancelSubmissionResult> {
    const result = await super.cancel(submissionId, reason);
    return result.outcome === "not_found" ? this.think.cancel(submissionId, reason) : result;
  }

  override async cancelFor(of: InstanceOf, reason: string): Promise<void> {
    await super.cancelFor(of, reason);
    await this.think.cancelFor(of, reason);
  }

  override async delete(submissionId: string): Promise<boolean> {
    return (await super.delete(submissionId)) || this.think.delete(submissionId);
  }

  /** Its own first. */
  override async deleteMany(options: DeleteSubmissionsOptions = {}): Promise<number> {
    const count = await super.deleteMany(options);
    const left = (options?.limit ?? 100) - count;
    return left <= 0 ? count : count + (await this.think.deleteMany({ ...options, limit: left }));
  }
}

/** The kind `prompt` of a Think agent: Think itself may have accepted a prompt, and then Think's event ends it. */
export class ThinkPromptKind extends PromptKind {
  constructor(
    private readonly ledger: ThinkSubmissions,
    ownerOfRun: KindUses["ownerOfRun"],
  ) {
    super(ledger, ownerOfRun);
  }

  override async open(asked: Parameters<PromptKind["open"]>[0]): ReturnType<PromptKind["open"]> {
    const { request, idempotencyKey } = asked;
    const key = "thinkKey" in request ? request.thinkKey : undefined;
    const known = key === undefined ? null : await this.ledger.think.find({ idempotencyKey: key });
    const { store } = this.ledger;
    if (!known || store.findByKey(idempotencyKey)) return super.open(asked);
    return { submissionId: known.submissionId, hasEnded: isTerminal(known.status) };
  }

  override async check(wait: WaitRef): ReturnType<PromptKind["check"]> {
    const end = await this.ledger.think.expirePrompt(wait.waitId, { cancel: false });
    return end === undefined ? super.check(wait) : end;
  }

  override async close(wait: WaitRef): ReturnType<PromptKind["close"]> {
    const end = await this.ledger.think.expirePrompt(wait.waitId, { cancel: true });
    return end === undefined ? super.close(wait) : end;
  }
}
