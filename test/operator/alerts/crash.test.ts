/** An agent crashes at any write or delivery between a failure, its alert, and the alert's end. */

import { env } from "cloudflare:workers";
import { capabilitiesOf } from "../../../src/hosts/public.ts";
import { planned, playMatrix } from "../../support/crash/matrix.ts";
import { differs, inObject, surely, wakeAll } from "../../support/crash/objects.ts";
import { until } from "../../support/given.ts";
import { type AlertsObject, heardBy, repaired } from "./alerts-object.ts";

type Stub = DurableObjectStub<AlertsObject>;

const nameOf = (stub: Stub) =>
  surely(() => inObject<AlertsObject, string>(stub, (_, ctx) => ctx.id.name ?? ""));

/** Wakes the agent until it has sent so many alerts. */
async function woken(stub: () => Stub, count: number): Promise<void> {
  const name = await nameOf(stub());
  await until(async () => {
    if (heardBy(name).length >= count) return true;
    await wakeAll(stub()).catch(() => {});
    return false;
  });
}

playMatrix(
  "O1 O2",
  {
    "a finding that is announced, and its end": planned<AlertsObject>({
      verbs: [],
      soonAfter: /perdure_alerts/,
      objects: env.AlertsObject,
      // The table of alerts is not yet empty: what is over stays for the quiet period.
      expect: { alarm: true },
      touch: wakeAll,
      steps: [
        async (stub, { id, stub: next }) => {
          await inObject<AlertsObject, string>(stub, (object) => object.fail(id));
          await woken(next, 1);
        },
        async (stub, { id, stub: next }) => {
          repaired.add(await nameOf(next()));
          await capabilitiesOf(stub).outbox.redrive(id);
          await woken(next, 2);
        },
      ],
      check: async (stub) =>
        differs(
          "O1 said",
          heardBy(await nameOf(stub)).map(({ state }) => state),
          ["open", "over"],
        ),
    }),
  },
  { owners: {}, harmless: {} },
);
