/** The outbox for operators, where the agent runs. */

import { operatedPart } from "../../engine/operated/part.ts";
import { earliestOf } from "../../engine/operated/text.ts";
import { outboxFacts } from "../facts.ts";
import { DEAD_LETTERS, type Operated, VERBS } from "./actions.ts";
import { OUTBOX_RULES } from "./rules.ts";

export const PARTS = {
  outbox: operatedPart({
    answers: ["delivers"],
    facts: async ({ capabilities: { outbox } }: Operated) => {
      await outbox.ready();
      return outboxFacts(outbox);
    },
    rules: OUTBOX_RULES,
    summary: ({ waiting, deadLetters, groups, endpoints }) => ({
      counts: { outbox: { waiting, deadLetters } },
      judges: waiting + deadLetters + endpoints.length > 0 ? ["delivers"] : [],
      workSince: earliestOf(groups.filter(({ state }) => state === "waiting")),
      isBusy: waiting > 0,
    }),
    verbs: VERBS,
    bulks: { "dead-letters": DEAD_LETTERS },
  }),
};
