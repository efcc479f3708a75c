/** Verbs of a DurableThink that no crash can do anything to, and why. */

const READS = "It only reads.";
const HOOK = "The app's own: it is called, and may be left out by a crash, as it says.";

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
  listDeadLetters: READS,
  countDeadLetters: READS,
  inspectEndpoint: READS,
  listEndpoints: READS,
  readDelivery: READS,
  inspectDelivery: READS,
  outboxStats: READS,
  agentPath: READS,
  onDeadLetter: "The app's own: it is called at least once, of which the outbox's matrix is.",
  onSubmissionStatus: HOOK,
  onApproval: HOOK,
  shouldSendApproval: HOOK,
};
