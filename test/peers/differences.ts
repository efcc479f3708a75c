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
    name: "Limits out of range",
    area: "submissions",
    builtIn: "`listSubmissions({ limit: 0 })` returns one submission.",
    perdure: "It throws an `InvalidSubmissionError` that names the range.",
    reason: "A wrong option is a mistake in the code, which a changed value hides.",
  },
  {
    name: "Length of lists",
    area: "submissions",
    builtIn: "`listSubmissions()` returns 50 submissions by default, and 100 at most.",
    perdure: "It returns 100 by default, and 1,000 at most; `before` gets the next page.",
    reason: "A page costs what it returns, at any number of stored submissions.",
  },
  {
    name: "Status behind another turn",
    area: "submissions",
    builtIn: "A submission is `running` while it waits for a turn of the chat.",
    perdure: "It is `pending` until its own turn starts.",
    reason:
      "What is `running` after a crash may have had effects. What is `pending` has had none, and simply runs.",
  },
  {
    name: "The end and onChatResponse()",
    area: "turns",
    builtIn: "The submission ends when `onChatResponse()` has returned.",
    perdure: "It ends before the app's `onChatResponse()` runs.",
    reason: "A hook that hangs or crashes keeps no finished turn from its end.",
  },
  {
    name: "Metadata of prompts",
    area: "workflows",
    builtIn: "The metadata of a prompt's submission has the prompt under `__thinkWorkflowPrompt`.",
    perdure: "It has `workflow: { name, id, stepName }`; the ledger stores the rest beside it.",
    reason:
      "Metadata is the app's: it configures nothing, so no caller can forge a prompt with it.",
  },
  {
    name: "Steps of the platform",
    area: "workflows",
    builtIn: "A prompt takes the steps `<name>:submit` and `<name>:wait`.",
    perdure: "The same, behind one step `perdure:run` for each run of the workflow.",
    reason: "After `restartWorkflow()` the agent has to know that another run asks.",
  },
  {
    name: "A text in place of the answer",
    area: "workflows",
    builtIn: "A model that ends its turn with a text fails the prompt with a `ThinkPromptError`.",
    perdure:
      "A text that is the answer is taken; any other fails the prompt with a `ThinkPromptValidationError`.",
    reason:
      'Many models do not call the tool that they have to. `strategy: "tool"` takes the tool only.',
  },
  {
    name: "Refused answers",
    area: "workflows",
    builtIn: "The submission of an answer that the schema refuses is `completed`.",
    perdure: "It is `error`.",
    reason: "A restarted workflow asks again, and does not receive the refused answer for ever.",
  },
  {
    name: "Turns of a terminated workflow",
    area: "workflows",
    builtIn: "`terminateWorkflow()` leaves the turn that the workflow waits for running.",
    perdure: "It cancels that turn.",
    reason: "Nobody reads its answer, and its model and tools cost money.",
  },
  {
    name: "Answers after a restart",
    area: "workflows",
    builtIn: "After `restartWorkflow()` a prompt that was answered before waits until its timeout.",
    perdure: "It returns the stored answer at once.",
    reason: "The ledger keeps the answer until retention deletes the submission.",
  },
  {
    name: "One wrong task",
    area: "scheduled tasks",
    builtIn: "One wrong task keeps all tasks from being armed, and reconciling rejects.",
    perdure:
      "The others are armed, and `onError()` receives an `InvalidTaskError` that names the task.",
    reason: "A mistake in one task stops no other work.",
  },
  {
    name: "Keys of occurrences",
    area: "scheduled tasks",
    builtIn:
      "`idempotencyKey` has colons, so `create({ id: idempotencyKey })` of a Workflow is refused.",
    perdure: "It is valid as the id of a Workflow instance.",
    reason: "The documented example works.",
  },
  {
    name: "Missed occurrences",
    area: "scheduled tasks",
    builtIn: "A late alarm runs the oldest missed occurrence.",
    perdure: 'It runs the latest one; `catchUp: "all"` runs all, `"none"` runs none.',
    reason: "After a long break the work of now is wanted.",
  },
  {
    name: "Retention",
    area: "submissions",
    builtIn: "Ended submissions are kept until they are deleted.",
    perdure: "They are deleted after 30 days, or when there are too many; options set both.",
    reason: "Storage that only grows ends an agent some day.",
  },
  {
    name: "A zone for an interval",
    area: "scheduled tasks",
    builtIn: "A `timezone` of `every 2 hours` keeps all tasks from being armed.",
    perdure: "It changes nothing: the task is armed.",
    reason: "An interval has no zone, so no harm is done.",
  },
  {
    name: "Messages of prompt errors",
    area: "workflows",
    builtIn: "The message has the reason alone: `Timed out waiting for Think prompt`.",
    perdure: 'It begins with the step, and a timeout says how long: `step.prompt("draft"): ...`.',
    reason: "A workflow has many steps, and its log shows only the message.",
  },
];
