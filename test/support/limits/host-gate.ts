/** A gate for agents on each host, which a test scripts by the metadata of its submissions. */

import { type LanguageModel, wrapLanguageModel } from "ai";
import type { Feature } from "../../../src/kernel/features.ts";
import {
  type Admission,
  installGate,
  type Submission,
  type Submissions,
} from "../../../src/kernel/submissions/internal.ts";
import { LimitControls } from "../../../src/limits/controls.ts";
import type { Keepers } from "../../../src/limits/keepers.ts";
import { full, limitWait, ScriptedGate } from "./gate.ts";

type Plan = {
  /** How often the submission waits before its turn starts, each time for 200 milliseconds. */
  waits?: number;
  /** By the number of the model call from 1: calls that have to wait for long, once. */
  callsThatWait?: number[];
  /** Calls of the model so far. */
  calls: number;
};

/** By `gate` in the metadata of submissions. */
export const plans = new Map<string, Plan>();

const WAIT_MS = 200;

class HostGate extends ScriptedGate {
  constructor(private readonly submissions: Submissions) {
    super((submission) => admissionOf(planOf(submission)));
  }

  override model(seq: number | undefined, model: LanguageModel): LanguageModel {
    if (typeof model === "string") throw new Error(`The model ${model} was not resolved`);
    // Without plans no row is read, so that costs are those of an app.
    const isPlanned = seq !== undefined && plans.size > 0;
    const plan = isPlanned ? planOf(this.submissions.ledger.store.get(seq)) : undefined;
    const before = () => {
      if (!plan) return;
      plan.calls++;
      const at = plan.callsThatWait?.indexOf(plan.calls) ?? -1;
      if (at < 0) return;
      throw limitWait(WAIT_MS);
    };
    return wrapLanguageModel({
      model: model as Parameters<typeof wrapLanguageModel>[0]["model"],
      middleware: {
        wrapStream: async ({ doStream }) => {
          before();
          return doStream();
        },
      },
    });
  }
}

function planOf(submission: Submission | undefined): Plan | undefined {
  return plans.get(String(submission?.metadata?.gate));
}

function admissionOf(plan: Plan | undefined): Admission {
  if (!plan?.waits) return undefined;
  plan.waits--;
  return full(WAIT_MS);
}

export const gateOfTests: Feature<"limits"> = {
  feature: "limits",
  install: ({ submissions }) => {
    const gate = new HostGate(submissions);
    installGate(submissions, gate);
    // What the health report reads of limits(), of which none is declared.
    return { controls: new LimitControls([], {} as Keepers) };
  },
};
