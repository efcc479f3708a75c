/**
 * The real ledger of the model test: a LedgerObject whose turns do what they are planned to do, and a snapshot of all
 * that can be seen of it from outside. What must survive a crash is stored in the object, so that it commits or is lost
 * together with the rows that it is about.
 */

import { runDurableObjectAlarm } from "cloudflare:test";
import type { Turn } from "../../../src/submissions/host.ts";
import type { SubmissionStatus } from "../../../src/submissions/states.ts";
import type {
  InternalSubmitOptions,
  SubmitMessagesOptions,
} from "../../../src/submissions/submit-options.ts";
import { givenLedger } from "../../support/given.ts";
import {
  acceptOne,
  again,
  forever,
  jobOf,
  type Ledger,
  notByItself,
  sleep,
  within,
} from "../../support/ledger.ts";
import {
  births,
  type LedgerObject,
  ledgerOptions,
  time,
} from "../../support/objects/ledger-object.ts";
import {
  idOf,
  messageIds,
  type PlannedTurn,
  type Request,
  type Rules,
  replyId,
} from "./entries.ts";
import { HeldTurns, plannedTurnOf } from "./held-turns.ts";

const RETRY = ":retry";
/** The time limit of a status hook, and how long a slow one takes. */
/** So long that a busy machine does not end a slow hook. */
const HOOK_TIMEOUT_MS = 60;
const SLOW_HOOK_MS = 2;

type SeenSubmission = {
  id: string;
  key: string | null;
  status: SubmissionStatus;
  attempts: number;
  dueAt: number | null;
  notBefore: number | null;
  expiresAt: number | null;
  gathersUntil: number | null;
  mergedInto: string | null;
  isToBeUndone: boolean;
  isAnswered: boolean;
  hasCalled: boolean;
  deferrals: number;
  resets: number;
  messages: readonly string[];
  turn: PlannedTurn;
};
type Flags = "isToBeUndone" | "isAnswered" | "hasCalled";
type SeenRow = Omit<SeenSubmission, Flags | "messages" | "turn"> &
  Record<Flags, number> & { messages: string; retriedBy: string | null };

/** All that can be seen at one moment. */
export type Snapshot = {
  readonly submissions: readonly SeenSubmission[];
  readonly conversation: readonly string[];
  readonly began: readonly string[];
  /** Those that have joined the turn of another, once for each time. */
  readonly joined: readonly string[];
  /** Each change of a status, as committed. */
  readonly history: readonly Change[];
  /** The status changes that the app was notified of since the last start. */
  readonly events: readonly string[];
  readonly job: number | null;
  /** The attempts whose turns are held, the longest held first. */
  readonly held: readonly string[];
  /** How many turns run and are not held. */
  readonly playing: number;
  /** Turns that ran at the same time, and tools that ran twice, and must not have (L4, L6). */
  readonly breaches: readonly string[];
};
type Change = { readonly id: string; before: SubmissionStatus; after: SubmissionStatus };

export class TestLedger {
  #stub: Ledger = givenLedger();
  /** How often the turn of a submission has failed, which no crash undoes. */
  readonly failed = new Map<string, number>();
  #events: { readonly id: string; readonly status: SubmissionStatus }[] = [];
  /** The calls of the status hook that have not returned, since the last start. */
  readonly #hookCalls = new Set<string>();
  /** Those since the last start, if the object has started. */
  #turns: HeldTurns | undefined;
  /** The model's id of each submission, by its real one: a generated id is known by the messages it came with. */
  readonly #names = new Map<string, string>();

  constructor(private readonly rules: Rules) {
    const name = this.#stub.name ?? "";
    const { maxPending, maxConcurrentTurns, maxAttempts, delayMs } = rules;
    ledgerOptions.set(name, {
      maxPending,
      maxConcurrentTurns,
      onProblem: () => {},
      retry: { maxAttempts, baseDelay: delayMs(1) * 2, maxDelay: 3_600_000 },
      // A held turn makes no progress for as long as the sequence likes.
      stallTimeout: "365 days",
      // Its answer is held as long: otherwise it is written at a moment that only a clock knows.
      holdAnswerMs: Number.POSITIVE_INFINITY,
      hookTimeoutMs: HOOK_TIMEOUT_MS,
    });
    births.set(name, (object, ctx) => this.#prepare(object, ctx));
  }

  /** The object starts for the first time. */
  async setUp(): Promise<void> {
    await this.#stub.list();
    await within(this.#stub, (_, { storage }) =>
      storage.sql.exec(`CREATE TABLE began (id TEXT, attempt INTEGER);
        CREATE TABLE joined (id TEXT);
        CREATE TABLE effects (id TEXT);
        CREATE TABLE history (id TEXT, before TEXT, after TEXT);
        CREATE TRIGGER history_of_status AFTER UPDATE OF status ON perdure_submissions
        BEGIN INSERT INTO history VALUES (NEW.submission_id, OLD.status, NEW.status); END`),
    );
  }

  async end(): Promise<void> {
    const name = this.#stub.name ?? "";
    await this.crash();
    this.restart();
    births.delete(name);
    ledgerOptions.delete(name);
  }

  /** @param isKnown whether a submission with its key exists, whose id is not this one */
  submit(request: Request, isKnown: boolean): Promise<object> {
    const { id, key, turn, thread, priority, whenBusy, maxAttempts, afterSideEffects } = request;
    const { delayMs, expiresMs, debounce, onConflict } = request;
    const text = JSON.stringify(turn);
    const messages = messageIds(id).map((messageId) => ({
      id: messageId,
      role: "user" as const,
      parts: [{ type: "text" as const, text }],
    }));
    const { delayMs: delay, maxDelayMs: maxDelay } = this.rules.debounce;
    return within(this.#stub, async ({ submissions }) => {
      // A structured answer cannot be requested by the app's own verb.
      const submit = (options: InternalSubmitOptions & SubmitMessagesOptions) =>
        turn.answers
          ? acceptOne(submissions, messages, options)
          : submissions.submit(messages, options);
      return submit({
        ...(!isKnown && debounce === undefined && { submissionId: id }),
        ...(key !== undefined && { idempotencyKey: key }),
        ...(delayMs !== undefined && {
          notBefore: new Date(Date.now() + time.aheadMs + delayMs),
        }),
        ...(expiresMs !== undefined && { expiresIn: expiresMs }),
        ...(debounce !== undefined && { debounce: { key: debounce, delay, maxDelay } }),
        thread,
        priority,
        whenBusy,
        onConflict,
        retry: { afterSideEffects, ...(maxAttempts !== undefined && { maxAttempts }) },
        ...(turn.answers && { answer: { schema: {} } }),
      })
        .then((reply) => this.#checked(this.#named(reply, id), !turn.answers))
        .catch((error: Error) => ({ refused: error.name }));
    });
  }

  retry(id: string): Promise<object | null> {
    return within(this.#stub, ({ submissions }) =>
      submissions.retry(this.#realName(id)).then((reply) => {
        const isNew = reply?.accepted || reply?.submissionId !== this.#realName(id);
        return reply && this.#checked(this.#named(reply, isNew ? `${id}${RETRY}` : id), true);
      }),
    );
  }

  delete(id: string): Promise<boolean> {
    return within(this.#stub, ({ submissions }) => submissions.delete(this.#realName(id)));
  }

  cancel(id: string): Promise<object> {
    return within(this.#stub, ({ submissions }) =>
      submissions
        .cancel(this.#realName(id))
        .then((reply) => this.#checked(this.#named(reply, id), true)),
    );
  }

  /** The nth held turn goes on. */
  release(nth: number): Promise<void> {
    return within(this.#stub, () => this.#turns?.release(nth));
  }

  reset(): Promise<void> {
    return within(this.#stub, async (object) => {
      await object.lifecycle.start();
      object.reset();
    });
  }

  /** Every job becomes due, and the alarm comes if there is one. */
  async wake(): Promise<void> {
    await within(this.#stub, (_, ctx) => {
      if (jobOf(ctx) === null) return;
      ctx.storage.sql.exec("UPDATE cf_agents_jobs SET time = ?", Date.now());
    });
    try {
      await runDurableObjectAlarm(this.#stub);
    } catch (error) {
      const now = Date.now() + time.aheadMs;
      await within(again(this.#stub), (_, ctx) => notByItself(ctx, now));
      throw error;
    }
  }

  /** The object crashes. What it had committed stays. */
  async crash(): Promise<void> {
    await within(this.#stub, async (_, ctx) => {
      await ctx.storage.sync();
      ctx.abort("crash");
    }).catch(() => {});
  }

  /** After a crash: a stub does not survive it. */
  restart(): void {
    this.#stub = again(this.#stub);
  }

  inside(work: (object: LedgerObject, ctx: DurableObjectState) => void): Promise<void> {
    return within(this.#stub, work);
  }

  look(): Promise<Snapshot> {
    return within(this.#stub, (_, ctx) => {
      const all = <T extends Record<string, SqlStorageValue>>(query: string) =>
        ctx.storage.sql.exec<T>(query).toArray();
      const rows = all<SeenRow>(
        `SELECT submission_id AS id, idempotency_key AS key, status, attempts, due_at AS dueAt, not_before AS notBefore,
           expires_at AS expiresAt, iif(debounce_key IS NULL, NULL, debounce_until) AS gathersUntil,
           merged_into AS mergedInto, rollback_state IS 'pending' AS isToBeUndone, output IS NOT NULL AS isAnswered, resets, messages,
           retried_by AS retriedBy, EXISTS (SELECT 1 FROM perdure_tool_calls c WHERE c.seq = s.seq) AS hasCalled,
           (SELECT COUNT(*) FROM perdure_attempts a WHERE a.seq = s.seq) AS deferrals
         FROM perdure_submissions s ORDER BY seq`,
      );
      const submissions = rows.map((row) => this.#seen(row));
      const names = (query: string) => all<{ id: string }>(query).map(({ id }) => id);
      return {
        submissions,
        conversation: names("SELECT thread || '/' || id AS id FROM conversation ORDER BY rowid"),
        joined: names("SELECT id FROM joined"),
        began: all<{ id: string; attempt: number }>("SELECT * FROM began ORDER BY rowid").map(
          ({ id, attempt }) => `${id}#${attempt}`,
        ),
        history: all<Change>("SELECT * FROM history ORDER BY rowid").map((change) => ({
          ...change,
          id: this.#name(change.id),
        })),
        events: this.#events.map(({ id, status }) => `${this.#name(id)}:${status}`),
        job: jobOf(ctx),
        held: this.#turns?.held ?? [],
        playing: this.#turns?.playing ?? 0,
        breaches: this.#turns?.breaches ?? [],
      };
    });
  }

  /** A row as the model has it. */
  #seen({ messages, retriedBy, ...row }: SeenRow): SeenSubmission {
    const read = JSON.parse(messages) as Turn["messages"];
    const [first] = read;
    // The first snapshot of it comes before any repetition.
    this.#learn(row.id, idOf(first?.id ?? ""));
    // The retried one has the same messages, and comes after this one.
    if (retriedBy !== null) this.#learn(retriedBy, `${this.#name(row.id)}${RETRY}`);
    return {
      ...row,
      id: this.#name(row.id),
      mergedInto: row.mergedInto === null ? null : this.#name(row.mergedInto),
      isToBeUndone: row.isToBeUndone === 1,
      isAnswered: row.isAnswered === 1,
      hasCalled: row.hasCalled === 1,
      messages: read.map(({ id }) => id),
      turn: plannedTurnOf(read),
    };
  }

  #learn(realName: string, otherwise: string): void {
    if (!this.#names.has(realName))
      this.#names.set(realName, /^s\d/.test(realName) ? realName : otherwise);
  }

  #name(realName: string): string {
    return this.#names.get(realName) ?? realName;
  }

  #realName(name: string): string {
    const [realName] = [...this.#names].find(([, known]) => known === name) ?? [name];
    return realName;
  }

  /** A reply with the model's id. */
  #named<T extends { submissionId: string }>(reply: T, id: string): T {
    const { submissionId } = reply;
    this.#learn(submissionId, id);
    return { ...reply, submissionId: this.#name(submissionId) };
  }

  /** L1 L5: a caller gets the reply "accepted" or "cancelled" after the app's hook has run. */
  #checked<T extends { submissionId: string }>(reply: T, isPublic: boolean): T {
    const { accepted, outcome } = reply as { accepted?: boolean; outcome?: string };
    const isChanged = isPublic && (accepted || outcome === "cancelled");
    if (isChanged && this.#isInHook(reply.submissionId, accepted ? "pending" : "aborted")) {
      throw new Error(`The hook still runs for ${reply.submissionId} when its caller goes on`);
    }
    return reply;
  }

  #isInHook(name: string, status: SubmissionStatus): boolean {
    return this.#hookCalls.has(`${name}:${status}`);
  }

  /** The model's id of a submission that is in no snapshot yet. It may be a retried one. */
  #nameIn(realName: string, sql: SqlStorage): string {
    const query = "SELECT submission_id AS id FROM perdure_submissions WHERE retried_by = ?";
    const [old] = sql.exec<{ id: string }>(query, realName).toArray();
    if (old) this.#learn(realName, `${this.#nameIn(old.id, sql)}${RETRY}`);
    return this.#name(realName);
  }

  #plannedTurn(submissionId: string, sql: SqlStorage): PlannedTurn {
    const query = "SELECT messages FROM perdure_submissions WHERE submission_id = ?";
    const [row] = sql.exec<{ messages: string }>(query, submissionId).toArray();
    return plannedTurnOf(JSON.parse(row?.messages ?? "[]") as Turn["messages"]);
  }

  #prepare({ turns, submissions }: LedgerObject, { storage }: DurableObjectState): void {
    const { sql } = storage;
    this.#events = [];
    const held = new HeldTurns(submissions, sql, {
      maxConcurrentTurns: this.rules.maxConcurrentTurns,
      failed: this.failed,
      nameOf: (id: string) => this.#nameIn(id, sql),
      isInHook: (name: string) => this.#isInHook(name, "running"),
    });
    this.#turns = held;
    turns.run = (turn) => held.run(turn);
    this.#hookCalls.clear();
    turns.onStatus = async ({ submissionId, status }) => {
      this.#events.push({ id: submissionId, status });
      const { hook } = this.#plannedTurn(submissionId, sql);
      if (hook === "hangs") return forever();
      const call = `${this.#nameIn(submissionId, sql)}:${status}`;
      this.#hookCalls.add(call);
      if (hook === "slow") await sleep(SLOW_HOOK_MS);
      this.#hookCalls.delete(call);
    };
    turns.removeMessages = async ({ submissionId, messages }) => {
      const gone = [...messages.map(({ id }) => id), replyId(this.#nameIn(submissionId, sql))];
      for (const id of gone) sql.exec("DELETE FROM conversation WHERE id = ?", id);
    };
  }
}
