/** Judges a soak: an independent model of the driver's requests, compared with what was received and what public verbs return. */

import { arrivalFindings, putFindings } from "./deliveries.ts";
import { duplicateFindings } from "./duplicates.ts";
import { effectFindings } from "./effects.ts";
import type { Evidence, Finding } from "./evidence.ts";
import { followerFindings } from "./followers.ts";
import { remainingWork } from "./remains.ts";
import { beatFindings, scheduleFindings } from "./schedules.ts";
import { submissionFindings } from "./submissions.ts";
import { threadFindings } from "./threads.ts";
import { workflowFindings } from "./workflows.ts";

export function judge(evidence: Evidence): Finding[] {
  const failed = (id: string, what: string): Finding => ({ kind: "failed", id, what });
  return [
    ...submissionFindings(evidence),
    ...workflowFindings(evidence),
    ...putFindings(evidence),
    ...arrivalFindings(evidence),
    ...effectFindings(evidence),
    ...duplicateFindings(evidence),
    ...threadFindings(evidence),
    ...followerFindings(evidence),
    ...evidence.looks.flatMap((look) => scheduleFindings(look, evidence.records)),
    ...evidence.beats.flatMap((beat) => beatFindings(beat, evidence)),
    ...evidence.looks.flatMap(remainingWork),
    ...[...evidence.acceptedMalformed].map((id) => failed(id, "took half of a surrogate pair")),
    ...evidence.problems.map(({ id, what }) => failed(id, what)),
    ...evidence.unsettled.map((id): Finding => {
      return { kind: "stuck", id, what: "had not ended when the soak was over" };
    }),
  ];
}
