/** Slots of a limit that several agents want. */

import { expect, it } from "vitest";
import { limit } from "../../../src/features/limits/index.ts";
import { generate, givenGate, modelOf, pass, submission } from "./support.ts";

/** A call takes two seconds. */
function slowModel() {
  const { model } = modelOf();
  const doGenerate: typeof model.doGenerate = async (options) => {
    await new Promise((resolve) => setTimeout(resolve, 2_000));
    return model.doGenerate(options);
  };
  return { ...model, doGenerate };
}

const one = limit("one", { concurrency: 1 });

it("M3: an agent with a queue of turns does not keep the only slot while another agent waits", async () => {
  const busy = givenGate({ limits: [one] });
  const other = givenGate({ limits: [one] }, busy.keepers);
  const order: string[] = [];
  const work = async ({ gate }: typeof busy, seq: number, name: string) => {
    for (let asked = gate.admit(submission(seq)); asked; asked = gate.admit(submission(seq))) {
      const answer = await asked;
      if (answer && "waitingFor" in answer)
        await new Promise((resolve) => setTimeout(resolve, answer.waitingFor.until - Date.now()));
    }
    await generate(gate, seq, slowModel());
    order.push(name);
    gate.released(seq);
  };
  const turns = Array.from({ length: 60 }, (_, index) => index + 1);
  // Four threads, of which one has the slot.
  const threads = [0, 1, 2, 3].map(async (thread) => {
    for (const seq of turns.slice(thread * 15, thread * 15 + 15)) await work(busy, seq, "busy");
  });
  await pass(3_000);
  const mine = work(other, 1, "other");
  await pass(200_000);
  await Promise.all([...threads, mine]);
  expect(order).toContain("other");
  // Calls of ten seconds, and those of threads that have waited longer.
  expect(order.indexOf("other")).toBeLessThan(15);
});
