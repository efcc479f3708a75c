/**
 * What a harness reports of the tokens of a turn, in the metadata of its reply. The model calls of a harness are not seen: they are
 * charged afterwards.
 */

import type { Watcher } from "../kernel/index.ts";
import type { Submissions } from "../kernel/submissions/internal.ts";
import { usageOf } from "./calls/usage.ts";
import type { LimitGate } from "./gate.ts";

/** Only some parts have metadata. */
type Part = { readonly messageMetadata?: { readonly usage?: unknown; readonly model?: unknown } };

export function usageWatcher(
  { ledger, turns }: Pick<Submissions, "ledger" | "turns">,
  gate: Pick<LimitGate, "charge">,
): Watcher {
  return {
    reply: ({ submissionId }, attempt) => ({
      chunk: (part) => {
        const { usage, model } = (part as Part).messageMetadata ?? {};
        const { input = 0, output = 0, ...cached } = usageOf(usage);
        const found = input + output > 0 ? ledger.store.find(submissionId) : undefined;
        if (found?.status !== "running") return;
        const { seq } = found;
        gate.charge(seq, { input, output, ...cached }, model);
        turns.recordUsage({ seq, attempt }, { inputTokens: input, outputTokens: output });
      },
      end: () => {},
    }),
  };
}
