/**
 * A ledger with a defect that shows after a crash only: which one, the first
 * word of the object's name says. The crash kit has to find each of them.
 */

import type { LifecycleServices } from "agents/lifecycle";
import type { Destination } from "../../src/outbox/index.ts";
import { metered, type StorageObserver } from "../../src/testing/index.ts";
import { LedgerObject } from "../support/objects/ledger-object.ts";

/** How often the submissions of an object were listed, by its name. */
export const looks = new Map<string, number>();

/** Objects whose turn will never end, by name. */
export const hanging = new Set<string>();

/** Storage that never sets an alarm. */
const WITHOUT_ALARM: StorageObserver = {
  exec: (_, run) => run(),
  put: (_, run) => run(),
  setAlarm: <T>() => Promise.resolve() as T,
};

export class PlantedObject extends LedgerObject {
  readonly #defect = this.ctx.id.name?.split("-")[0];
  readonly #life = crypto.randomUUID();

  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    super(ctx.id.name?.startsWith("asleep-") ? metered(ctx, WITHOUT_ALARM) : ctx, env);
    const list = this.submissions.list.bind(this.submissions);
    this.submissions.list = (options) => {
      const { name = "" } = this.ctx.id;
      looks.set(name, (looks.get(name) ?? 0) + 1);
      return list(options);
    };
    if (this.#defect === "repeats") this.#forgetWhatWasSaid();
  }

  /** After the rooms' own start; in the first life there is nothing yet. */
  onStart(): void {
    if (this.#defect === "forgets") this.#sql("DELETE FROM perdure_outbox");
    if (this.#defect === "twice") {
      this.#sql(`UPDATE perdure_submissions SET output = '"late"' WHERE settled_at IS NOT NULL`);
    }
    if (this.#defect === "renames") this.#putAgain();
    if (this.#defect === "revives") this.#reportAgain();
    if (this.#defect === "endless" && this.#sql("SELECT 1 FROM perdure_submissions").length > 0) {
      this.turns.run = () => {
        hanging.add(this.ctx.id.name ?? "");
        return new Promise(() => {});
      };
    }
  }

  /** The conversation, each message under the id that it was given by whoever said it. */
  async said(): Promise<{ id: string }[]> {
    return this.turns.conversation().map((id) => ({ id: id.split("~")[0] ?? id }));
  }

  #forgetWhatWasSaid(): void {
    const say = this.turns.say.bind(this.turns);
    this.turns.say = (thread, id, text) => say(thread, `${id}~${this.#life}`, text);
    this.turns.inspectConversation = async () => ({ applied: "none", hasEffects: false });
  }

  /** Ended submissions run again, as their events say. */
  #reportAgain(): void {
    const { lifecycle } = this.submissions as unknown as { lifecycle: LifecycleServices };
    const ended =
      "SELECT submission_id AS id FROM perdure_submissions WHERE settled_at IS NOT NULL";
    for (const { id } of this.#sql(ended))
      for (const status of ["completed", "running"])
        lifecycle.events.emit("submission:status", { submissionId: String(id), status });
  }

  #putAgain(): void {
    for (const { id, destination, payload } of this.#sql("SELECT * FROM perdure_outbox")) {
      this.#sql("DELETE FROM perdure_outbox WHERE id = ?", String(id));
      this.outbox.put(
        JSON.parse(String(destination)) as Destination,
        JSON.parse(String(payload)) as unknown,
      );
    }
  }

  #sql(query: string, ...bindings: SqlStorageValue[]) {
    return this.ctx.storage.sql.exec(query, ...bindings).toArray();
  }
}
