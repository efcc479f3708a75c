/** The room of the waits against a model of it: any sequence of calls, crashes and wakes. */

import fc from "fast-check";
import { afterEach, expect, it } from "vitest";
import type { WaitReceipt } from "../../src/waits/index.ts";
import { until } from "../support/given.ts";
import { knob, limitMs } from "../support/knobs.ts";
import { silence } from "../support/scheduler.ts";
import {
  ask,
  type Capability,
  crash,
  givenWaits,
  inside,
  open,
  rowsOf,
  wake,
} from "../support/waits.ts";
import { arrivals, waitsTime } from "../support/waits-object.ts";
import { type Command, commands, STEPS, type StepNumber, WaitsModel } from "./model/waits-model.ts";

afterEach(() => {
  waitsTime.stoppedAt = undefined;
});

const START = Date.now() + 86_400_000;

async function play(sequence: readonly Command[]): Promise<void> {
  const room = givenWaits();
  const mark = crypto.randomUUID();
  const model = new WaitsModel();
  const ids: string[] = [];
  const proofs = new Map<string, string>();
  for (const command of sequence) {
    const place = model.apply(command);
    waitsTime.stoppedAt = START + model.now;
    await perform(command, {
      room,
      mark,
      id: ids[place ?? -1],
      opened: ({ waitId: id, proof = "" }) => {
        if (place !== undefined) ids[place] ??= id;
        // Whoever asks for it again is told the proof that its event comes with.
        expect(proofs.get(id) ?? proof).toBe(proof);
        proofs.set(id, proof);
        // The same wait where the model has the same, and another one where it has another.
        expect(id).toBe(ids[place ?? -1]);
      },
    });
  }
  expect(new Set(ids).size).toBe(ids.length);
  const rows = await rowsOf(room);
  expect(rows.map(({ wait_id, status, expires_at }) => ({ wait_id, status, expires_at }))).toEqual(
    model.waits.map(({ status, expiresAt }, place) => ({
      wait_id: ids[place],
      status,
      expires_at: START + expiresAt,
    })),
  );
  const told = ids.filter((_, place) => model.waits[place]?.isTold);
  const events = () =>
    ["a", "b"]
      .flatMap((instance) => arrivals.get(`${mark}-${instance}`) ?? [])
      .map(({ data, proof }) => ({ ...(data as { waitId: string }), proof }));
  const came = () => events().map(({ waitId }) => waitId);
  // What was lost with a life is delivered by the next one.
  await crash(room);
  await wake(room);
  await until(() => new Set(came()).size >= told.length, 5_000).catch(() => {});
  expect([...new Set(came())].sort()).toEqual([...told].sort());
  for (const { waitId, proof } of events()) expect(proof).toBe(proofs.get(waitId));
  expect(new Set(proofs.values()).size).toBe(proofs.size);
}

type Stage = {
  room: Capability;
  mark: string;
  id: string | undefined;
  opened: (receipt: WaitReceipt) => void;
};

async function perform(command: Command, { room, mark, id, opened }: Stage): Promise<void> {
  if (command.do === "open") {
    opened(await open(room, requestOf(command, mark)));
  } else if (command.do === "cancel") {
    await inside(room, ({ waits }) =>
      waits.cancelFor({ workflow: "W", instance: `${mark}-${command.instance}` }, "gone"),
    );
  } else if (command.do === "crash") await crash(room);
  else if (command.do === "wake") await wake(room);
  else if (id !== undefined) {
    await inside(room, async ({ waits }) => {
      if (command.do === "close") await waits.settle(id, { status: "completed", result: null });
      else await waits.close({ waitId: id }, { status: "expired", result: null });
    });
  }
}

function requestOf(
  { at, run, timeoutMs }: { at: StepNumber; run: number; timeoutMs: number },
  mark: string,
) {
  const { instance, step } = STEPS[at];
  return ask({
    instance: `${mark}-${instance}`,
    idempotencyKey: `${mark}:${instance}:${step}`,
    run: `run-${run}`,
    timeoutMs,
  });
}

it("W1 W2 W5 O1: any sequence of calls, crashes and wakes leaves what the model says", {
  timeout: limitMs(120_000),
}, async () => {
  silence();
  await fc.assert(fc.asyncProperty(commands, play), { numRuns: knob("WAITS_RUNS", 40) });
});
