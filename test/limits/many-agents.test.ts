/** Many agents by their real gates, with keepers in memory, on a virtual clock: all end, soon, and the provider refuses none. */

import { describe, expect, it } from "vitest";
import { limit } from "../../src/limits/index.ts";
import { generate, givenGate, modelOf, pass, promptOf, submission } from "./support.ts";

const MINUTE = 60_000;

type World = {
  readonly agents: number;
  readonly turns: number;
  readonly requests: number;
  readonly tokens?: number;
  readonly concurrency?: number;
};

async function run({ agents, turns, requests, tokens, concurrency }: World) {
  const account = limit("openai", {
    models: "openai/*",
    requests: `${requests} per minute`,
    ...(tokens && { tokens: `${tokens} per minute` }),
    ...(concurrency && { concurrency }),
  } as never);
  const first = givenGate({ limits: [account] });
  const { keepers } = first;
  keepers.latencyMs = 10;
  const started = Date.now();
  const calls: number[] = [];
  let running = 0;
  let most = 0;
  let ended = 0;
  let again = 0;
  const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

  const agent = async (index: number, gate = givenGate({ limits: [account] }, keepers).gate) => {
    const model = modelOf().model;
    const scripted = {
      ...model,
      doGenerate: async (options: Parameters<typeof model.doGenerate>[0]) => {
        calls.push(Date.now());
        most = Math.max(most, ++running);
        await wait(50 + ((index * 37) % 350));
        running--;
        return model.doGenerate(options);
      },
    };
    for (let turn = 0; turn < turns; turn++) {
      const seq = turn + 1;
      const given = submission(seq, { submissionId: `${index}-${turn}` });
      let since: number | undefined;
      const admitted = async () => {
        for (;;) {
          const waitingFor = since === undefined ? {} : { waitingFor: { since } as never };
          const admission = gate.admit({ ...given, ...waitingFor });
          if (!admission) return;
          const decision = await admission;
          if (!decision) continue;
          if (!("waitingFor" in decision)) throw new Error(JSON.stringify(decision));
          since ??= decision.waitingFor.since;
          await wait(decision.waitingFor.until - Date.now());
        }
      };
      // As the ledger does: an attempt that has to wait for long begins again.
      for (let isEnded = false; !isEnded; ) {
        await admitted();
        try {
          for (let call = 0; call < 2; call++) await generate(gate, seq, scripted, promptOf(200));
          isEnded = true;
        } catch (error) {
          const { waitingFor } = error as { waitingFor?: { until: number } };
          if (!waitingFor) throw error;
          again++;
          gate.released(seq);
          await wait(waitingFor.until - Date.now());
        }
      }
      gate.released(seq);
      ended++;
    }
  };
  const all = Promise.all(Array.from({ length: agents }, (_, index) => agent(index)));
  let isOver = false;
  void all.then(() => {
    isOver = true;
  });
  while (!isOver && Date.now() - started < 30 * MINUTE) await pass(1_000);
  await Promise.race([all, pass(1)]);
  const over = calls.filter(
    (at) => calls.filter((other) => other > at - MINUTE && other <= at).length > requests,
  );
  return {
    ended,
    again,
    seconds: (Date.now() - started) / 1_000,
    over: over.length,
    most,
    asks: keepers.asks.length,
    calls: calls.length,
  };
}

describe("many agents", () => {
  it.each([
    { agents: 100, turns: 2, requests: 300 },
    { agents: 100, turns: 2, requests: 300, concurrency: 20 },
    { agents: 100, turns: 2, requests: 300, tokens: 30_000 },
    { agents: 100, turns: 2, requests: 300, tokens: 30_000, concurrency: 20 },
  ])(
    "share %o",
    async (world) => {
      const seen = await run(world);
      console.log(JSON.stringify(world), JSON.stringify(seen));
      expect(seen.ended).toBe(world.agents * world.turns);
    },
    120_000,
  );
});
