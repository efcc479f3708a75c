/**
 * Cases that have to agree and do not yet. A case of this list fails as soon as both sides agree, so that the list can only
 * become shorter.
 */
export const pendingFixes: readonly string[] = [
  // Request ids and triggers.
  "the request id is the submission's id from acceptance on",
  "the request id of an ended submission is its id",
  "ctx.trigger of a submitted turn is submission",
  "ctx.requestId of a submitted turn is the submission's id",
  "activeTurn in a tool of a submitted turn",
  "cancelChat() of the submission's id cancels its turn",
  "ctx.trigger of a prompt's turn is submission",
  "ctx.requestId of a prompt's turn is the submission's id",
  // Tolerant schemas.
  "an answer with a coerced field is what the schema makes of it",
  "an answer with a field with a catch is what the schema makes of it",
  "an answer with a preprocessed field is what the schema makes of it",
  "an answer with a field that is trimmed first is what the schema makes of it",
  // Declared tasks.
  '"every day at 09:00 in US/Pacific" with the timezone America/Los_Angeles is armed for its first occurrence',
  '"every day at 09:00" with the timezone +02:00 is armed for its first occurrence',
  "an interval of more than 366 days is armed",
  "a task with an id of 150 characters is armed",
  "a task with a field that Think does not know is armed",
  "the turn of a prompt task has the trigger of a submission",
  // Smaller ones.
  "deleteSubAgent() leaves no alarm for the tasks of the sub-agent",
  "the cause of a ThinkPromptValidationError is the schema's error",
  "the event submission:status is emitted for each status",
  "the event submission:error is emitted for a failed submission",
  "getCurrentAgent().request is the request in onSubmissionStatus() for pending",
];
