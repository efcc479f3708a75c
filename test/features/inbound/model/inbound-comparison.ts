/** The real log beside its model: how a command is performed on both, and what must be equal after it. */

import { handlers } from "../../../../src/features/inbound/offer.ts";
import type { AcceptRequest } from "../../../../src/features/inbound/protocol.ts";
import type { LoggedArrival } from "../../../../src/features/inbound/types.ts";
import { arrival, call, crash, givenInbound, inside } from "../../../support/inbound.ts";
import type { Action, Compared, Subject } from "../../../support/model-test.ts";
import type { InboundObject } from "../../../support/objects/inbound-object.ts";
import { type InboundCommand, InboundModel, REPLAYED } from "./inbound-model.ts";

/** A caller that got no reply calls again. */
const MAX_CALLS = 3;

type Snapshot = { readonly log: readonly LoggedArrival[]; readonly notes: readonly string[] };
type Agent = Pick<InboundObject, "note">;

export class InboundComparison implements Subject<InboundCommand, Snapshot> {
  readonly #source = `model-${crypto.randomUUID()}`;
  readonly #model = new InboundModel();
  readonly #object = givenInbound({
    matchWaits: (_, object) => {
      if (!object.isWaiting()) return [];
      object.waitFor(false);
      return [{ waitId: "w", workflow: { name: "W", id: "i" } }];
    },
  });

  async setUp(): Promise<void> {
    handlers.set(this.#source, {
      name: this.#source,
      handle: async ({ id }, agent) => {
        for (const ordinal of REPLAYED.keys()) await (agent as Agent).note(`${id}:${ordinal}`);
      },
    });
  }

  async crash(hasCrashed: boolean): Promise<void> {
    if (!hasCrashed) await crash(this.#object);
  }

  inside(work: (object: InboundObject, ctx: DurableObjectState) => void): Promise<void> {
    return inside(this.#object, work);
  }

  actionOf(command: InboundCommand): Action {
    return {
      expect: () => this.#model.apply(command),
      act: () => repeated(() => inside(this.#object, (object) => this.#perform(object, command))),
    };
  }

  async #perform(object: InboundObject, command: InboundCommand): Promise<void> {
    const { inbound } = object;
    const { op } = command;
    if (op === "deliver") await this.#deliver(object, command);
    else if (op === "wait") object.waitFor(true);
    else if (op === "replay all") await inbound.replayMany();
    else if (op === "fail") {
      await inbound.accept({ arrival: this.#arrival(command.id), refusal: "Error: failed" });
    } else {
      const found = await inbound.inspect(this.#source, command.id);
      // A replay of another arrival would be a new one each time that a caller repeats it.
      if (found && (found.error || found.verdict !== "accepted")) {
        await inbound.replay(this.#source, command.id);
      }
    }
  }

  async #deliver(
    { inbound }: InboundObject,
    { id, calls, isCut }: Extract<InboundCommand, { op: "deliver" }>,
  ): Promise<void> {
    const arrival = this.#arrival(id);
    const { body: _, ...known } = arrival;
    let isUnfinished = false;
    const accepted = async (request: AcceptRequest) => {
      const answer = await inbound.accept(request);
      isUnfinished ||= "isUnfinished" in answer;
      return answer.verdict !== "refused";
    };
    if (calls.length === 0) await accepted({ arrival });
    for (const [ordinal, isGood] of calls.entries()) {
      const one = ordinal === 0 ? arrival : known;
      const request = isGood
        ? call(one, "note", [`${id}:${ordinal}`], ordinal)
        : call(one, "refuse", ["Error", "no"], ordinal);
      if (!(await accepted(request))) return;
    }
    if (isUnfinished && !isCut) await inbound.accept({ arrival: known, ended: true });
  }

  #arrival(id: string) {
    return arrival(id, { source: this.#source });
  }

  look(): Promise<Snapshot> {
    return inside(this.#object, async (object) => {
      const { items: arrivals } = await object.inbound.list();
      return { log: arrivals.toReversed(), notes: object.notes() };
    });
  }

  compare({ log, notes }: Snapshot): Compared {
    const { entries } = this.#model;
    return {
      seen: {
        notes,
        log: log.map(({ id, verdict, calls, error }) => {
          const ordinals = calls.flatMap((one) => (one.kind === "wait" ? [] : one.ordinal));
          const waits = calls.length - ordinals.length;
          return [id, verdict, ordinals.toSorted(), waits, error && (error.ordinal ?? "handler")];
        }),
      },
      expected: {
        notes: this.#model.notes,
        log: entries.map(({ id, verdict, ordinals, waits, error }) => [
          ...[id, verdict, [...ordinals].toSorted(), waits],
          error && (error.ordinal ?? "handler"),
        ]),
      },
    };
  }

  async end(): Promise<void> {
    handlers.delete(this.#source);
  }
}

async function repeated(work: () => Promise<void>): Promise<void> {
  for (let calls = 1; ; calls++) {
    try {
      return await work();
    } catch (error) {
      if (calls === MAX_CALLS) throw error;
    }
  }
}
