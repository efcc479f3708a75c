/** A crash at every write of the arrival log. What was answered is stored, and no recorded call is run again. */

import { env } from "cloudflare:workers";
import { Inbound } from "../../../src/features/inbound/inbound.ts";
import { handlers, offer } from "../../../src/features/inbound/offer.ts";
import type { Verdict } from "../../../src/features/inbound/protocol.ts";
import { type Planned, type Plans, planned, playMatrix } from "../../support/crash/matrix.ts";
import { differs, inObject, prepared, surely, wakeAll } from "../../support/crash/objects.ts";
import { arrival, call } from "../../support/inbound.ts";
import { type InboundObject, inboundScripts } from "../../support/objects/inbound-object.ts";

const SOURCE = "crash-source";
const MATCH = { waitId: "w1", workflow: { name: "W", id: "i1" } };

type Scenario = {
  readonly verbs: readonly string[];
  /** What a caller does, again after a crash until it succeeds. */
  readonly steps: readonly ((object: InboundObject) => Promise<unknown>)[];
  /** What the methods have written, in this order. */
  readonly notes: readonly string[];
  /** Methods that return a promise may run once more after each crash. */
  readonly mayRepeat?: boolean;
  /** Ids and verdicts, oldest first. */
  readonly log: readonly (readonly [id: string, verdict: Verdict])[];
  readonly waits?: boolean;
};

function plan({ verbs, steps, notes, mayRepeat = false, log, waits = false }: Scenario): Planned {
  return planned<InboundObject>({
    verbs,
    soonAfter: /perdure_inbound/,
    objects: prepared(env.InboundObject, (name) => {
      inboundScripts.set(name, {
        retention: { maxCount: 100 },
        matchWaits: (_, object) => {
          if (!waits || object.notes().includes("closed")) return [];
          object.write("closed");
          return [MATCH];
        },
      });
    }),
    steps: steps.map((step) => (stub: object) => {
      return inObject(stub, async (object: InboundObject) => void (await step(object)));
    }),
    isOver: async () => true,
    touch: wakeAll,
    check: (_, run) =>
      surely(() =>
        inObject(run.stub(), async (object: InboundObject) => {
          const { items: arrivals } = await object.inbound.list();
          const seen = arrivals.map(({ id, verdict }) => [id, verdict]);
          const written = object.notes();
          const found = mayRepeat ? [...new Set(written)] : written;
          return [
            ...differs("I1 the effects", found, notes),
            ...differs("I2 the log", seen.toReversed(), log),
            ...differs("I7 what has not ended", arrivals.filter(({ error }) => error).length, 0),
          ];
        }),
      ),
  });
}

/** As a receiver whose sender repeats what is not answered by 2xx. */
async function deliver(object: InboundObject, id: string, ...calls: [string, string][]) {
  const handle = async (_: unknown, agent: object) => {
    const methods = agent as Record<string, (text: string) => Promise<unknown>>;
    for (const [verb, text] of calls) await methods[verb]?.(text);
  };
  const { isUnreachable, error } = await offer({ handle }, arrival(id, { source: SOURCE }), {
    callKernel: (_, request) => object.inbound.accept(request),
  });
  if (isUnreachable) throw error;
}

const refuse = (object: InboundObject, id: string) =>
  object.inbound.accept(call(arrival(id, { source: SOURCE }), "refuse", ["Error", "no"]));

handlers.set(SOURCE, {
  name: SOURCE,
  handle: async ({ id }, agent) => {
    const { note } = agent as Pick<InboundObject, "note">;
    await note(`${id} first`);
    await note(`${id} second`);
  },
});

const LOG: Plans = {
  "an arrival with two calls": plan({
    verbs: ["Inbound.accept"],
    steps: [(object) => deliver(object, "d1", ["note", "first"], ["note", "second"])],
    notes: ["first", "second"],
    log: [["d1", "accepted"]],
  }),
  "an arrival whose method returns a promise": plan({
    verbs: ["Inbound.accept"],
    steps: [(object) => deliver(object, "d1", ["slow", "first"], ["promised", "second"])],
    notes: ["first", "second first", "second"],
    mayRepeat: true,
    log: [["d1", "accepted"]],
  }),
  "an arrival that is refused, and accepted later": plan({
    verbs: ["Inbound.accept"],
    steps: [(object) => refuse(object, "d1"), (object) => deliver(object, "d1", ["note", "first"])],
    notes: ["first"],
    log: [["d1", "accepted"]],
  }),
  "an arrival that a workflow waits for": plan({
    verbs: ["Inbound.accept"],
    steps: [(object) => deliver(object, "d1"), (object) => deliver(object, "d2")],
    notes: ["closed"],
    log: [
      ["d1", "accepted"],
      ["d2", "filtered"],
    ],
    waits: true,
  }),
  "a refused arrival that a workflow waits for": plan({
    verbs: ["Inbound.accept"],
    steps: [(object) => refuse(object, "d1"), (object) => deliver(object, "d1", ["note", "first"])],
    notes: ["closed", "first"],
    log: [["d1", "accepted"]],
    waits: true,
  }),
  "a wait that is opened after the arrival": plan({
    verbs: ["Inbound.recordWait"],
    steps: [
      (object) => deliver(object, "d1"),
      async (object) => {
        await object.inbound.list();
        object.transaction(() => {
          if (!object.notes().includes("closed")) object.write("closed");
          object.inbound.recordWait(SOURCE, "d1", MATCH);
        });
      },
    ],
    notes: ["closed"],
    log: [["d1", "accepted"]],
  }),
  "a replay of a refused arrival": plan({
    verbs: ["Inbound.replay"],
    steps: [(object) => refuse(object, "d1"), (object) => object.inbound.replay(SOURCE, "d1")],
    notes: ["d1 first", "d1 second"],
    log: [["d1", "accepted"]],
  }),
  "a replay of all refused arrivals": plan({
    verbs: ["Inbound.replayMany"],
    steps: [
      (object) => refuse(object, "d1"),
      (object) => refuse(object, "d2"),
      (object) => object.inbound.replayMany(),
    ],
    notes: ["d1 first", "d1 second", "d2 first", "d2 second"],
    log: [
      ["d1", "accepted"],
      ["d2", "accepted"],
    ],
  }),
};

const READS = "It only reads.";

playMatrix("I1 I2 I5 I7", LOG, {
  owners: { Inbound },
  harmless: {
    "Inbound.list": READS,
    "Inbound.inspect": READS,
    "Inbound.recent": READS,
    "Inbound.countReplayable": READS,
    "Inbound.checkReplay": READS,
    "Inbound.facts": READS,
    "Inbound.countRefused":
      "One statement counts, and its receiver counts again what was not answered.",
  },
});
