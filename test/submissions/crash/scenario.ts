/** How scenarios of the ledger are said: what is called, how each submission ends, and what is in the conversation. */

import { env } from "cloudflare:workers";
import type { UIMessage } from "ai";
import type { LedgerOptions } from "../../../src/submissions/options.ts";
import type { SubmissionStatus } from "../../../src/submissions/states.ts";
import type { SubmitMessagesOptions } from "../../../src/submissions/submit-options.ts";
import { type Plan, type Planned, planned } from "../../support/crash/matrix.ts";
import { differs, inObject, prepared, surely, wakeAll } from "../../support/crash/objects.ts";
import { message, until } from "../../support/given.ts";
import { sleep } from "../../support/ledger.ts";
import {
  aheadOf,
  births,
  couriers,
  delivered,
  type LedgerObject,
  ledgerOptions,
  type TurnScript,
} from "../../support/objects/ledger-object.ts";

/** One play, as a step sees it. */
export type Run = { readonly id: string };
export type Step = (object: LedgerObject, run: Run) => unknown;

export type LedgerPlan = Pick<Plan<LedgerObject>, "verbs"> & {
  readonly steps: readonly Step[];
  /** By idempotency key, or else by id; where the crash may decide, what is possible. Left out where ids are random. */
  readonly ends?: Readonly<Record<string, SubmissionStatus | readonly SubmissionStatus[]>>;
  /** Ids of the messages in the main conversation, where no crash may decide. */
  readonly said?: readonly string[];
  /** What else is wrong in the end. */
  readonly also?: (object: LedgerObject, run: Run) => Promise<string[]> | string[];
  readonly soonAfter?: RegExp;
  /** Its wake for a later time may be left to lapse, which is cheaper than to cancel it. */
  readonly hasLapsing?: boolean;
  /** So many rows are left, when all has been forgotten that is to be. */
  readonly keeps?: number;
  readonly options?: LedgerOptions;
  /** At each start of the object. */
  readonly born?: (object: LedgerObject) => void;
};

export const MINUTE = 60_000;
/** The write that begins a turn. */
const CLAIMED = /SET status = 'running'/;
/** The write that ends one. */
export const SETTLED = /SET status = \?/;
/** The write that accepts one. */
export const ACCEPTED = /INTO perdure_submissions/;

export function ledgerPlan(plan: LedgerPlan): Planned {
  const { verbs, steps, soonAfter = CLAIMED, options, born, keeps = Infinity } = plan;
  return planned<LedgerObject>({
    verbs,
    soonAfter,
    objects: prepared(env.LedgerObject, (name) => {
      ledgerOptions.set(name, { retry: { baseDelay: 1, maxDelay: 1 }, ...options });
      births.set(name, (object) => {
        slowDown(object);
        born?.(object);
      });
    }),
    steps: steps.map((step) => (stub, { id }) => {
      return inObject(stub, async (object: LedgerObject) => void (await step(object, { id })));
    }),
    isOver: (stub) => inObject(stub, (_, ctx) => isAtRest(ctx) && rowsIn(ctx) <= keeps),
    touch: wakeAll,
    check: (_, run) =>
      surely(() =>
        inObject(run.stub(), async (object: LedgerObject) => [
          ...(await endingsOf(object, plan)),
          ...((await plan.also?.(object, run)) ?? []),
        ]),
      ),
    expect: {
      alarm: plan.hasLapsing ?? false,
      messages: async (object, thread) => {
        const { turns } = object as unknown as LedgerObject;
        return turns.conversation(thread).map((said) => ({ id: said }));
      },
    },
  });
}

/** Gives every phase of a turn a commit of its own: the light host is too fast otherwise. */
function slowDown({ turns }: LedgerObject): void {
  const run = turns.run.bind(turns);
  turns.run = async (turn) => {
    await sleep(5);
    return run(turn);
  };
}

/** All that was accepted has ended, also what is due later, and every notification was delivered. */
function isAtRest({ storage: { sql } }: DurableObjectState): boolean {
  const open = sql.exec(
    `SELECT 1 FROM perdure_submissions WHERE settled_at IS NULL OR rollback_state = 'pending'
     UNION ALL SELECT 1 FROM perdure_outbox`,
  );
  return open.toArray().length === 0;
}

function rowsIn({ storage: { sql } }: DurableObjectState): number {
  return sql.exec("SELECT 1 FROM perdure_submissions").toArray().length;
}

async function endingsOf(object: LedgerObject, { ends, said }: LedgerPlan): Promise<string[]> {
  const conversation = said
    ? differs("L4 the conversation", await object.conversation(), said)
    : [];
  if (!ends) return conversation;
  const list = await object.submissions.list();
  const found = new Map(
    list.map(({ idempotencyKey, submissionId, status }) => [
      idempotencyKey ?? submissionId,
      status,
    ]),
  );
  const names = differs("L1 what is there", [...found.keys()].toSorted(), Object.keys(ends).sort());
  const wrong = Object.entries(ends).flatMap(([name, allowed]) => {
    const status = found.get(name);
    const isRight = status !== undefined && [allowed].flat().includes(status);
    return isRight || names.length > 0 ? [] : [`L1 ${name} is ${status}, not ${allowed}`];
  });
  return [...names, ...wrong, ...conversation];
}

/** Submits one message, `m-<id>`. */
export function submit(
  { submissions }: LedgerObject,
  id: string,
  script: TurnScript = { delayMs: 5 },
  options: SubmitMessagesOptions = {},
) {
  return submissions.submit([said(id, script)], { submissionId: id, ...options });
}

export function said(id: string, script: TurnScript = { delayMs: 5 }): UIMessage {
  return message(script, `m-${id}`);
}

/** Waits, in the object, until a submission has come so far. */
function comes(
  object: LedgerObject,
  id: string,
  isThere: (status: SubmissionStatus | undefined) => boolean,
) {
  return until(async () => isThere((await object.inspect(id))?.status));
}

/** Its turn has begun. */
export const begun = (object: LedgerObject, id: string) =>
  comes(object, id, (status) => status !== "pending");

/** It has come to its end. */
export const ended = (object: LedgerObject, id: string) =>
  comes(object, id, (status) => status !== "pending" && status !== "running");

/** Advances the clock of this object alone; a caller without an answer repeats the call. */
export const later =
  (ms: number): Step =>
  (_, { id }) =>
    void aheadOf.set(id, ms);

/** Destinations of one play. */
export function destinations({ id }: Run, ...names: readonly string[]) {
  return names.map((name) => {
    const instance = `${id}-${name}`;
    couriers.set(instance, () => sleep(5));
    return {
      kind: "workflow" as const,
      workflow: "PROMPT_WORKFLOW",
      instance,
      eventType: "ended",
    };
  });
}

/** O2: each of them received that end, under one id, and each time the same. */
export function receivedProblems(
  { id }: Run,
  names: readonly string[],
  status: SubmissionStatus | undefined,
): string[] {
  return names.flatMap((name) => {
    const came = delivered.get(`${id}-${name}`) ?? [];
    const ids = new Set(came.map((one) => one.id));
    const events = new Set(came.map(({ payload }) => JSON.stringify(payload)));
    const isRight = [...events].every((event) => event.includes(`"submission.${status}"`));
    return ids.size === 1 && events.size === 1 && isRight
      ? []
      : [`O2 ${name} received ${[...events].join(" and ")} under ${ids.size} ids`];
  });
}
