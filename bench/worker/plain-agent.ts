/** A plain agent of the agents SDK with the modules that a prompt needs. */

import { Agent } from "agents";
import { Sessions } from "agents/sessions";
import { SdkTurns } from "../../src/hosts/sdk/sdk-turns.ts";
import type { TurnRequest, TurnSetup } from "../../src/hosts/sdk/turn-source.ts";
import { Outbox } from "../../src/kernel/outbox/index.ts";
import type { Submissions } from "../../src/kernel/submissions/internal.ts";
import { PromptKind, type StepCalls } from "../../src/kernel/waits/index.ts";
import type { Meter } from "../../src/testing/meter.ts";
import { type Cost, costOf, counting, meterOf } from "./cost.ts";
import type { Env } from "./env.ts";
import { ledgerOf } from "./loaded-ledger.ts";
import { sleep } from "./marks.ts";
import { TimedModel } from "./timed-model.ts";

export class PlainAgent extends Agent<Env> {
  readonly meter: Meter | undefined;
  readonly #ledger: Submissions;
  readonly #prompts: PromptKind;

  constructor(ctx: DurableObjectState, env: Env) {
    const meter = meterOf(ctx);
    super(ctx, env);
    this.meter = meter;
    const sessions = new Sessions();
    const outbox = new Outbox({ host: this, env });
    const turns = new SdkTurns({
      source: setup,
      sessions,
      ledger: () => this.#ledger.turns,
    });
    this.#ledger = ledgerOf((turn) => turns.run(turn), outbox);
    this.#prompts = new PromptKind(this.#ledger);
    this.lifecycle.use(sessions).use(outbox).use(this.#ledger);
  }

  async startPrompts(id: string, params: unknown): Promise<string> {
    return this.runWorkflow("PERDURE_WORKFLOW", params, { id, agentBinding: "PlainAgent" });
  }

  callKernel(name: keyof StepCalls, ...args: never[]): unknown {
    return (this.#calls[name] as ((...args: never[]) => unknown) | undefined)?.(...args);
  }

  get #calls(): Partial<StepCalls> {
    const prompts = this.#prompts;
    return {
      openWait: (request) => prompts.open(request as Parameters<PromptKind["open"]>[0]),
      checkWait: (wait) => prompts.check(wait),
      readWait: (wait, part) => prompts.read(wait, part),
      refuseWait: (_kind, waitIds) => prompts.refuse(waitIds),
      closeWait: (wait) => prompts.close(wait),
      finishWorkflowRun: async () => {},
    };
  }

  async reset(): Promise<void> {
    counting(this.meter).reset();
  }

  async cost(): Promise<Cost> {
    await sleep(300);
    return costOf(counting(this.meter));
  }
}

async function setup({ messagesFor }: TurnRequest): Promise<TurnSetup> {
  return { model: new TimedModel(), messages: await messagesFor({}), tools: {}, maxSteps: 2 };
}
