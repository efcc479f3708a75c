/** Verbs of a DurableThink that no crash can do anything to, and why. */

const READS = "It only reads.";
const HOOK = "The app's own: it is called, and may be left out by a crash, as it says.";
const STOPS =
  "It aborts a turn in memory, as Think's own; a turn that a crash interrupts is recovered.";

export const HARMLESS: Readonly<Record<string, string>> = {
  inspectSubmission: READS,
  listSubmissions: READS,
  submissionStats: READS,
  threadMessages: READS,
  waitForSubmission: "It only waits; the caller asks again after a crash, as it says.",
  listApprovals: READS,
  inspectApproval: READS,
  listScheduledTasks: READS,
  inspectScheduledTask: READS,
  listScheduledRuns: READS,
  listDeliveries: READS,
  listDeadLetters: READS,
  countDeadLetters: READS,
  inspectEndpoint: READS,
  listEndpoints: READS,
  readDelivery: READS,
  inspectDelivery: READS,
  outboxStats: READS,
  agentPath: READS,
  dynamicAgents:
    "What its `delete()` leaves behind is tried at each of its writes: think-schedules.test.ts.",
  destroy:
    "Of a sub-agent it deletes what `delete()` does, and what is left comes due within half a minute.",
  activeTurn: READS,
  replyAttachments: READS,
  cancelChat: STOPS,
  abortRequest: STOPS,
  onDeadLetter: "The app's own: it is called at least once, of which the outbox's matrix is.",
  onProblem: HOOK,
  onSubmissionStatus: HOOK,
  onApproval: HOOK,
  shouldSendApproval: HOOK,
  shouldSendSubmission: HOOK,
};
