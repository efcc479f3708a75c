/** `inspectWork()`: the work of an object, as its public verbs list it. */

import { DurableObject } from "cloudflare:workers";
import { count, optionsOf, readOptions } from "../../core/options/option-schemas.ts";
import type { Page } from "../../engine/page.ts";
import type { ScheduledRun } from "../../scheduler/types.ts";
import type { SubmissionInspection } from "../../submissions/types.ts";
import type { ApprovalStatus } from "../../workflow/waits/kinds/approval-types.ts";
import { inObject } from "../cloudflare-test.ts";
import { InvalidScenarioError } from "../errors.ts";
import { findVerbs } from "./capabilities.ts";
import { describeOpenWork, type WorkInspection } from "./open-work.ts";

export type InspectWorkOptions = {
  /**
   * Maximum items of each list, up to 100,000.
   * @default 10_000
   */
  readonly limit?: number;
};

const OPTIONS = optionsOf<InspectWorkOptions>()({ limit: count({ max: 100_000 }).default(10_000) });

/** Items of one page. */
const PAGE = 1_000;
const APPROVAL_PAGE = 100;
const APPROVAL_STATUSES: readonly ApprovalStatus[] = [
  "pending",
  "approved",
  "rejected",
  "expired",
  "refused",
  "cancelled",
];

/**
 * Reads the work of an object by its public verbs, which start the object. Works for every host, and for an object with `new
 * Outbox()` or `new Scheduler()` as a property.
 *
 * @param target the stub of an object of this worker, in Vitest; or the object itself, in its own code
 * @throws InvalidScenarioError for an invalid option
 * @example
 * const { open, deliveries } = await inspectWork(env.Triage.getByName("ada"));
 * expect(open).toEqual([]);
 */
export async function inspectWork(
  target: object,
  options: InspectWorkOptions = {},
): Promise<WorkInspection> {
  const refuse = (_: string, message: string) => new InvalidScenarioError("inspectWork()", message);
  const { limit } = readOptions(OPTIONS, options, "options of inspectWork()", refuse);
  if (target instanceof DurableObject) {
    const { ctx } = target as unknown as { ctx: DurableObjectState };
    return readWork(target, ctx.storage, limit);
  }
  return inObject(target as DurableObjectStub, (object, { storage }) =>
    readWork(object, storage, limit),
  );
}

/** {@link inspectWork} inside of the object. */
export async function readWork(
  object: object,
  storage: DurableObjectStorage,
  limit: number = OPTIONS.parse({}).limit,
): Promise<WorkInspection> {
  const { list, outbox, approvals, schedules, inbound } = findVerbs(object);
  const lists = new Lists(limit);
  const submissions = await lists.readSubmissions(list);
  const deliveries = await lists.read(outbox && ((page) => outbox.listDeliveries(page)));
  const endpoints = await lists.read(outbox && ((page) => outbox.listEndpoints(page)));
  const decisions = await lists.read(
    approvals &&
      ((page) => approvals.list({ ...page, limit: APPROVAL_PAGE, status: APPROVAL_STATUSES })),
  );
  const tasks = await lists.read(schedules && ((page) => schedules.list(page)));
  const runs: ScheduledRun[] = [];
  for (const { taskId, state } of tasks) {
    if (state === "invalid") continue;
    runs.push(...(await lists.read(schedules && ((page) => schedules.runs(taskId, page)))));
  }
  const arrivals = await lists.read(inbound && ((page) => inbound.list(page)));
  const work = {
    submissions,
    deliveries,
    endpoints,
    approvals: decisions,
    tasks,
    runs,
    inbound: arrivals,
    alarm: await storage.getAlarm(),
    isCut: lists.isCut,
  };
  return { open: describeOpenWork(work, Date.now()), ...work };
}

/** Reads lists page by page, up to a limit. */
class Lists {
  isCut = false;

  constructor(private readonly limit: number) {}

  async read<Item>(
    list: ((page: { limit: number; cursor?: string }) => Promise<Page<Item>>) | undefined,
  ): Promise<Item[]> {
    const items: Item[] = [];
    let cursor: string | undefined;
    do {
      if (!list) break;
      const page = await list({ limit: PAGE, ...(cursor !== undefined && { cursor }) });
      items.push(...page.items);
      cursor = page.cursor;
    } while (cursor !== undefined && items.length <= this.limit);
    return this.#cut(items, cursor !== undefined);
  }

  /** Continues after the last one, because a page of submissions can be shorter than its limit and not the last one. */
  async readSubmissions(
    list:
      | ((page: { limit: number; before?: string }) => Promise<SubmissionInspection[]>)
      | undefined,
  ): Promise<SubmissionInspection[]> {
    const items: SubmissionInspection[] = [];
    while (list && items.length <= this.limit) {
      const before = items.at(-1)?.submissionId;
      const page = await list({ limit: PAGE, ...(before !== undefined && { before }) });
      if (page.length === 0) break;
      items.push(...page);
    }
    return this.#cut(items, false);
  }

  #cut<Item>(items: Item[], hasMore: boolean): Item[] {
    if (items.length > this.limit || hasMore) this.isCut = true;
    return items.slice(0, this.limit);
  }
}
