/** Submissions and threads for operators, where the agent runs. */

import { operatedPart } from "../../engine/operated/part.ts";
import { submissionFacts } from "../facts.ts";
import { type Operated, SUBMISSIONS, VERBS } from "./actions.ts";
import { FAILURE_RULES } from "./failure-rules.ts";
import { RECENT_RULES } from "./recent-rules.ts";
import { START_RULES } from "./rules.ts";

export const PARTS = {
  submissions: operatedPart({
    answers: ["starts", "succeeds"],
    facts: async ({ capabilities: { submissions }, storage }: Operated, now) => {
      await submissions.ready();
      const { limits, turns } = submissions;
      const progressAt = (seq: number) => turns.progressAt(seq);
      return submissionFacts({ sql: storage.sql, limits, progressAt }, now);
    },
    rules: [...START_RULES, ...FAILURE_RULES, ...RECENT_RULES],
    summary: ({ counts, hourly, countedFrom, open }) => {
      const isBusy = counts.pending + counts.running > 0;
      const { completed, error, aborted, skipped } = counts;
      const hasEnded = completed + error + aborted + skipped > 0;
      return {
        counts: { submissions: counts },
        judges: [
          ...(isBusy || hasEnded ? (["starts"] as const) : []),
          ...(hasEnded ? (["succeeds"] as const) : []),
          ...(isBusy ? (["onTime"] as const) : []),
        ],
        workSince: Math.min(...open.map(({ createdAt }) => createdAt)),
        isBusy,
        ends: { hourly, countedFrom },
      };
    },
    verbs: VERBS,
    bulks: { submissions: SUBMISSIONS },
  }),
};
