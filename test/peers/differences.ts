/** The intended differences from the built-in. The table of docs/migration.md is made of this list: `npm run fix:docs`. */

export type Difference = {
  readonly name: string;
  readonly area: "submissions" | "turns" | "workflows" | "scheduled tasks";
  readonly builtIn: string;
  readonly perdure: string;
  readonly reason: string;
};

export const differences: readonly Difference[] = [
  {
    name: "Invalid limits",
    area: "submissions",
    builtIn:
      "`listSubmissions({ limit: 0 })` returns one submission, and `deleteSubmissions({ limit: 0 })` deletes one.",
    perdure: "They throw an `InvalidSubmissionError` that names the valid range.",
    reason: "An invalid option is a mistake in the code. A silently changed value hides it.",
  },
  {
    name: "Length of lists",
    area: "submissions",
    builtIn: "`listSubmissions()` returns 50 submissions by default and 100 at most.",
    perdure: "It returns 100 by default and 1,000 at most. Pass `before` to get the next page.",
    reason: "With pages you can list any number of submissions.",
  },
  {
    name: "Unknown options",
    area: "submissions",
    builtIn: "Options of `submitMessages()` that do not exist are ignored.",
    perdure: "It throws an `InvalidSubmissionError` that lists the valid options.",
    reason: "A misspelt `idempotencyKey` would submit the same work twice.",
  },
  {
    name: "Long keys and messages",
    area: "submissions",
    builtIn: "An id, a key or a message may be as long as a row of storage.",
    perdure: "An id or a key has at most 2,048 bytes. See [limits](limits.md) for messages.",
    reason:
      "Keys are indexed and travel in headers. A clear error comes before that of the platform.",
  },
  {
    name: "Failures of the model that pass",
    area: "submissions",
    builtIn: "A submission whose model answers 503 ends in `error`.",
    perdure: "It is `pending` again and asks later, up to five times. `retry` changes that.",
    reason: "An overloaded provider is available again after seconds or minutes.",
  },
  {
    name: "Status behind another turn",
    area: "submissions",
    builtIn: "A submission is `running` while it waits for a turn of the chat.",
    perdure: "It is `pending` until its own turn starts.",
    reason:
      "After a crash a `running` submission may have had side effects. A `pending` one has had none, so it just runs.",
  },
  {
    name: "Retention",
    area: "submissions",
    builtIn: "Ended submissions are kept until you delete them.",
    perdure:
      "They are deleted after 30 days, or when there are more than 100,000. The option `retention` changes both limits.",
    reason: "Storage that only grows fills up.",
  },
  {
    name: "Request ids after a recovery",
    area: "submissions",
    builtIn: "After a recovery `requestId` of the submission is the id of the recovered turn.",
    perdure: "`requestId` is always the id of the submission.",
    reason: "An id that you have stored or logged stays valid.",
  },
  {
    name: "Overrides of submitMessages()",
    area: "submissions",
    builtIn: "An override is also called for the prompts of workflows and of scheduled tasks.",
    perdure: "It is not called for them.",
    reason: "Perdure accepts these prompts with options that `submitMessages()` does not have.",
  },
  {
    name: "End of the turn and onChatResponse()",
    area: "turns",
    builtIn: "The submission ends after `onChatResponse()` has returned.",
    perdure: "It ends before `onChatResponse()` of the app runs.",
    reason: "If this hook hangs or crashes, the finished turn has ended all the same.",
  },
  {
    name: "Ids of turns in streams and actions",
    area: "turns",
    builtIn:
      "The frames of a client's stream and `ActionContext.requestId` contain the id of the submission.",
    perdure:
      "They contain Think's own id of the turn. `cancelChat()` and the other methods accept both ids. In an action, `activeTurn.requestId` is the id of the submission.",
    reason: "No public hook of Think can change the id there.",
  },
  {
    name: "MCP servers after a restart",
    area: "turns",
    builtIn:
      "`waitForMcpConnections` is `false`: the first turn has no tools of a server that is not connected yet.",
    perdure: "It is `{ timeout: 15_000 }`. Set it to `false` in your class for Think's default.",
    reason: "A submitted turn starts the object, so it is often the first after a restart.",
  },
  {
    name: "Metadata of prompts",
    area: "workflows",
    builtIn:
      "The metadata of a prompt's submission contains the prompt, under `__thinkWorkflowPrompt`.",
    perdure:
      "It contains `workflow: { name, id, stepName }`, and the `metadata` of the step and of `runWorkflow()`. The ledger stores the rest separately.",
    reason:
      "Metadata of a submission belongs to the app and configures nothing. So no caller can forge a prompt with it.",
  },
  {
    name: "Repeated step names",
    area: "workflows",
    builtIn: "If a run uses a step name and key twice, the second use waits until its timeout.",
    perdure: "The second use is refused at once. The error names the step.",
    reason: "No event is sent for the second wait. In a loop, pass a different `key` each time.",
  },
  {
    name: "Wrong agent bindings",
    area: "workflows",
    builtIn:
      "`runWorkflow()` accepts any `agentBinding`. The workflow then fails before its first step.",
    perdure:
      "`runWorkflow()` throws if the binding does not exist, or if it is the binding of another class.",
    reason: "You see the mistake where you made it, and no workflow is started.",
  },
  {
    name: "Text in place of the answer",
    area: "workflows",
    builtIn: "If the model ends its turn with a text, the prompt fails with a `ThinkPromptError`.",
    perdure:
      "A text that is a valid answer is accepted. Any other text fails the prompt with a `ThinkPromptValidationError`.",
    reason:
      'Many models do not call the answer tool. Pass `strategy: "tool"` to accept answers by the tool only.',
  },
  {
    name: "Refused answers",
    area: "workflows",
    builtIn: "If the schema refuses the answer, the submission is `completed`.",
    perdure:
      "It is `error`. If only a check without a JSON Schema form refuses the answer (such as Zod's `refine()`), it is `completed`.",
    reason:
      "The status says that the model gave no valid answer. After `restartWorkflow()` the prompt asks the model again.",
  },
  {
    name: "Turns of a terminated workflow",
    area: "workflows",
    builtIn: "`terminateWorkflow()` does not stop the turn that the workflow waits for.",
    perdure: "It cancels that turn.",
    reason: "No workflow reads the answer, and the turn costs money.",
  },
  {
    name: "Answers after a restart",
    area: "workflows",
    builtIn:
      "After `restartWorkflow()`, a prompt that was answered before waits until its timeout.",
    perdure: "It returns the stored answer at once.",
    reason: "The ledger keeps the answer until retention deletes the submission.",
  },
  {
    name: "Messages of prompt errors",
    area: "workflows",
    builtIn: "The message contains only the reason: `Timed out waiting for Think prompt`.",
    perdure:
      'It begins with the step: `step.prompt("draft"): ...`. The message of a timeout says how long the prompt waited. Perdure\'s own texts end with a remedy.',
    reason: "A workflow has many steps, and its log shows only the message.",
  },
  {
    name: "One invalid task",
    area: "scheduled tasks",
    builtIn:
      "If one task is invalid, no task is armed, and `internal_reconcileScheduledTasks()` rejects.",
    perdure:
      "The other tasks are armed. `onError()` receives an `InvalidTaskError` that names the invalid task.",
    reason: "A mistake in one task does not stop the others.",
  },
  {
    name: "Invalid fields of a task",
    area: "scheduled tasks",
    builtIn:
      "The task is armed. A `handler` that is no function and `retry.maxAttempts: 0` fail at each occurrence. An empty or numeric `prompt`, and `metadata` that is no object, are submitted.",
    perdure:
      "The task is not armed. `onError()` receives an `InvalidTaskError` that names the field.",
    reason: "You see the mistake at the start of the agent, not at the first occurrence.",
  },
  {
    name: "Keys of occurrences",
    area: "scheduled tasks",
    builtIn:
      "`idempotencyKey` contains colons, so `create({ id: idempotencyKey })` of a Workflow rejects.",
    perdure: "It is a valid id of a Workflow instance.",
    reason: "The example in Think's documentation works.",
  },
  {
    name: "Spelling of zones and schedules",
    area: "scheduled tasks",
    builtIn:
      "`timezone` of a handler's context is the platform's name of the zone: `America/Los_Angeles` for `US/Pacific`. `schedule` keeps your spelling: `every week on mon,fri at 07:05`.",
    perdure:
      "`timezone` is the name that you wrote. `schedule` always has the long form: `every week on monday,friday at 07:05`.",
    reason:
      "You find your own name of the zone. Two spellings of one schedule are the same schedule.",
  },
  {
    name: "Missed occurrences",
    area: "scheduled tasks",
    builtIn: "A late alarm runs the oldest missed occurrence.",
    perdure: 'It runs the latest one. `catchUp: "all"` runs all of them, and `"none"` runs none.',
    reason: "After a long outage the latest occurrence is usually the useful one.",
  },
  {
    name: "Further schedules",
    area: "scheduled tasks",
    builtIn: "A task with `every month on last friday at 17:00` is invalid, and no task is armed.",
    perdure: "It is armed. [Schedules](schedules.md) lists all forms.",
    reason: "The schedules of Think are a part of those of Perdure.",
  },
  {
    name: "Zone of an interval",
    area: "scheduled tasks",
    builtIn: "If an interval such as `every 2 hours` has a `timezone`, no task is armed.",
    perdure: "The zone has no effect, and the task is armed.",
    reason: "An interval counts real time, so no zone can be wrong.",
  },
];
