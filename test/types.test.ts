/** Types are part of the product: what a call infers, and that code for Think compiles unchanged. */

import { env } from "cloudflare:workers";
import type {
  Think,
  ChatResponseResult as ThinkChatResponseResult,
  SubmitMessagesOptions as ThinkOptions,
  SubmitMessagesResult as ThinkResult,
  TurnContext as ThinkTurnContext,
} from "@cloudflare/think";
import type { AgentWorkflowEvent } from "agents/workflows";
import type { UIMessage } from "ai";
import { expect, expectTypeOf, it } from "vitest";
import { z } from "zod";
import type { Json } from "../src/core/json.ts";
import * as codemode from "../src/features/codemode/index.ts";
import * as deploy from "../src/features/deploy/index.ts";
import * as inbound from "../src/features/inbound/index.ts";
import * as limits from "../src/features/limits/index.ts";
import * as streams from "../src/features/streams/index.ts";
import * as react from "../src/features/streams/react/index.ts";
import type { ToolStep } from "../src/hosts/agent/index.ts";
import * as agent from "../src/hosts/agent/index.ts";
import type { DurableChatAgent } from "../src/hosts/chat/index.ts";
import * as object from "../src/hosts/object/index.ts";
import { capabilitiesOf } from "../src/hosts/public.ts";
import * as think from "../src/hosts/think/index.ts";
import {
  type Approval,
  type ChatResponseResult,
  DurableThink,
  type defineScheduledTasks,
  type ListSubmissionsOptions,
  type SubmissionInspection,
  type SubmitMessagesOptions,
  type SubmitMessagesResult,
  type ThinkScheduledTasks,
  type ThinkSubmissionInspection,
  type TurnContext,
} from "../src/hosts/think/index.ts";
import type { AgentVerbs } from "../src/hosts/verbs.ts";
import type { AuditEntry, OperateResult, Page, WorkflowDetails } from "../src/operator/index.ts";
import * as operator from "../src/operator/index.ts";
import type { OperatedAgent } from "../src/operator/operated.ts";
import type { PARTS } from "../src/operator/part.generated.ts";
import * as outbox from "../src/outbox/index.ts";
import * as scheduler from "../src/scheduler/index.ts";
import * as submissions from "../src/submissions/index.ts";
import { jsonSchemaOf, readOutput } from "../src/submissions/index.ts";
import * as testing from "../src/testing/index.ts";
import { ScriptedModel } from "../src/testing/index.ts";
import * as workflow from "../src/workflow/index.ts";
import {
  type PromptAllSettled,
  ThinkWorkflow,
  type ThinkWorkflowStep,
} from "../src/workflow/index.ts";

const draftSchema = z.object({
  title: z.string(),
  severity: z.enum(["low", "critical"]),
  labels: z.array(z.string()),
});

/** As Think's page on workflows has it, with only the base classes changed. */
class TriageAgent extends DurableThink<Cloudflare.Env> {
  override getModel() {
    return new ScriptedModel();
  }

  triageIssue(issueNumber: number): Promise<string> {
    return this.runWorkflow("PROMPT_WORKFLOW", { issueNumber }, { metadata: { issueNumber } });
  }

  async applyLabels(labels: string[]): Promise<number> {
    return labels.length;
  }
}

class TriageWorkflow extends ThinkWorkflow<TriageAgent, { issueNumber: number }> {
  override async run(event: AgentWorkflowEvent<{ issueNumber: number }>, step: ThinkWorkflowStep) {
    const draft = await step.prompt("triage-issue", {
      prompt: `Triage issue #${event.payload.issueNumber}`,
      output: draftSchema,
      timeout: "3 days",
    });
    expectTypeOf(draft).toEqualTypeOf<z.infer<typeof draftSchema>>();
    await step.do("apply-labels", () => this.agent.applyLabels(draft.labels));
    await step.reportComplete(draft);
    return draft.severity;
  }
}

it("a prompt's answer has the type of its schema", () => {
  type Step = Pick<ThinkWorkflowStep, "prompt">;
  const answer = (step: Step) => step.prompt("n", { prompt: "p", output: draftSchema });
  expectTypeOf(answer).returns.resolves.toEqualTypeOf<z.infer<typeof draftSchema>>();
  const text = (step: Step) => step.prompt("n", { prompt: "p" });
  expectTypeOf(text).returns.resolves.toEqualTypeOf<string>();
  // @ts-expect-error an output is a schema
  const example = (step: Step) => step.prompt("n", { prompt: "p", output: { title: "" } });
  expectTypeOf(example).toBeFunction();
  expectTypeOf<TriageWorkflow["run"]>().returns.resolves.toEqualTypeOf<"low" | "critical">();
});

it("answers to many items have the type of the schema, and that of onError", () => {
  type Step = Pick<ThinkWorkflowStep, "promptAll">;
  type Draft = z.infer<typeof draftSchema>;
  const items = [{ id: 1, text: "a" }];
  const asked = (step: Step) =>
    step.promptAll("n", items, {
      prompt: (item, index) => {
        expectTypeOf(item).toEqualTypeOf<{ id: number; text: string }>();
        expectTypeOf(index).toEqualTypeOf<number>();
        return item.text;
      },
      output: draftSchema,
      key: ({ id }) => `issue-${id}`,
    });
  expectTypeOf(asked).returns.resolves.toEqualTypeOf<Draft[]>();
  const texts = (step: Step) => step.promptAll("n", items, { prompt: ({ text }) => text });
  expectTypeOf(texts).returns.resolves.toEqualTypeOf<string[]>();
  const settled = (step: Step) =>
    step.promptAll("n", items, { prompt: () => "p", output: draftSchema, onError: "return" });
  expectTypeOf(settled).returns.resolves.toEqualTypeOf<PromptAllSettled<Draft>[]>();
  const settledTexts = (step: Step) =>
    step.promptAll("n", ["a"] as const, { prompt: (item) => item, onError: "return" });
  expectTypeOf(settledTexts).returns.resolves.toEqualTypeOf<PromptAllSettled<string>[]>();
  const thrown = (step: Step) =>
    step.promptAll("n", items, { prompt: () => "p", onError: "throw", concurrency: 8 });
  expectTypeOf(thrown).returns.resolves.toEqualTypeOf<string[]>();
  // @ts-expect-error a prompt is made of each item
  const fixed = (step: Step) => step.promptAll("n", items, { prompt: "p" });
  // @ts-expect-error there is no such way
  const ignored = (step: Step) => step.promptAll("n", items, { prompt: () => "p", onError: "no" });
  expectTypeOf([fixed, ignored]).toBeArray();
});

it("a decision has the type of its schema, and is narrowed by whether it approves", () => {
  type Step = Pick<ThinkWorkflowStep, "approval">;
  const transforming = z.object({ amount: z.number(), note: z.string().default("none") });
  const asked = async (step: Step) => {
    const decision = await step.approval("n", { schema: transforming, timeout: "3 days" });
    expectTypeOf(decision.by).toEqualTypeOf<string | undefined>();
    expectTypeOf(decision.decidedAt).toEqualTypeOf<number>();
    if (!decision.approved) {
      // @ts-expect-error a rejection has no payload
      return decision.payload;
    }
    return decision.payload;
  };
  expectTypeOf(asked).returns.resolves.toEqualTypeOf<{ amount: number; note: string }>();
  const plain = async (step: Step) => {
    const decision = await step.approval("n");
    return decision.approved ? decision.payload : null;
  };
  expectTypeOf(plain).returns.resolves.toEqualTypeOf<undefined | null>();
  const byDefault = (step: Step) =>
    step.approval("n", { schema: transforming, onTimeout: { approve: { amount: 1 } } });
  expectTypeOf(byDefault).toBeFunction();
  const without = (step: Step) => step.approval("n", { onTimeout: "approve" });
  expectTypeOf(without).toBeFunction();
  const mistaken = (step: Step) =>
    // @ts-expect-error the default is what the schema takes
    step.approval("n", { schema: transforming, onTimeout: { approve: { amount: "1" } } });
  expectTypeOf(mistaken).toBeFunction();
  // @ts-expect-error there is nothing to approve with
  const empty = (step: Step) => step.approval("n", { schema: transforming, onTimeout: "approve" });
  expectTypeOf(empty).toBeFunction();
  // @ts-expect-error what a person is shown is JSON
  const shown = (step: Step) => step.approval("n", { data: { when: new Date() } });
  expectTypeOf(shown).toBeFunction();
});

it("DurableThink stands in for Think", () => {
  expectTypeOf<TriageAgent>().toExtend<Think<Cloudflare.Env>>();
  expectTypeOf<TriageAgent["submitMessages"]>().toExtend<Think["submitMessages"]>();
  expectTypeOf<TriageAgent["cancelSubmission"]>().toExtend<Think["cancelSubmission"]>();
});

it("an inspection can be read without narrowing, and is narrowed by its status", () => {
  expectTypeOf<SubmissionInspection["error"]>().toEqualTypeOf<string | undefined>();
  type Pending = Extract<SubmissionInspection, { status: "pending" }>;
  expectTypeOf<Pending["completedAt"]>().toEqualTypeOf<undefined>();
  type Completed = Extract<SubmissionInspection, { status: "completed" }>;
  expectTypeOf<Completed["completedAt"]>().toEqualTypeOf<number>();
});

it("results keep their types over RPC", () => {
  const inspect = () => env.ThinkAgent.getByName("types").inspectSubmission("x");
  type Inspected = Awaited<ReturnType<typeof inspect>>;
  expectTypeOf<Inspected>().not.toBeNever();
  expectTypeOf<NonNullable<Inspected>["status"]>().toEqualTypeOf<SubmissionInspection["status"]>();
  const approvals = () => capabilitiesOf(env.ThinkAgent.getByName("types")).approvals.list();
  type Listed = Awaited<ReturnType<typeof approvals>>["items"][number];
  expectTypeOf<Listed["payload"]>().toEqualTypeOf<Approval["payload"]>();
  expectTypeOf<Listed["data"]>().toEqualTypeOf<Approval["data"]>();
  const decide = () =>
    capabilitiesOf(env.ThinkAgent.getByName("types")).approvals.grant("x", { payload: [1] });
  type Decided = Extract<Awaited<ReturnType<typeof decide>>, { outcome: "decided" }>;
  expectTypeOf<Decided["approval"]["schema"]>().toEqualTypeOf<Approval["schema"]>();
});

/** Verbs of a DurableThink that Think does not have, or has with less in their results. */
type OwnVerb =
  | Exclude<keyof DurableThink & string, keyof Think>
  | "submitMessages"
  | "inspectSubmission"
  | "listSubmissions"
  | "cancelSubmission"
  | "waitForSubmission"
  | "deleteSubmission"
  | "deleteSubmissions"
  | "runWorkflow"
  | "terminateWorkflow";

/** What a stub's verb resolves with. RPC's types make `never` of a result that they cannot follow, e.g. one with an `unknown`. */
type OverStub<Verb> = Verb extends keyof DurableObjectStub<TriageAgent>
  ? DurableObjectStub<TriageAgent>[Verb] extends (...args: never[]) => infer Result
    ? Awaited<Result>
    : "a property"
  : never;

it("an agent has each verb that operators call", () => {
  expectTypeOf<AgentVerbs>().toExtend<OperatedAgent["agent"]>();
  // A part has a type of its own for the agent.
  type VerbsOf<Part> = Part extends { read(agent: infer Of, now: number): unknown }
    ? Of extends { readonly agent: infer Verbs }
      ? Verbs
      : object
    : never;
  type Missing = {
    [Name in keyof typeof PARTS]: AgentVerbs extends VerbsOf<(typeof PARTS)[Name]> ? never : Name;
  }[keyof typeof PARTS];
  expectTypeOf<Missing>().toBeNever();
});

it("L7: every verb of a stub has a result", () => {
  type Lost = { [Verb in OwnVerb]: [OverStub<Verb>] extends [never] ? Verb : never }[OwnVerb];
  expectTypeOf<Lost>().toBeNever();
});

it("L7: the messages of a thread are UIMessages, also over RPC", () => {
  const read = async (stub: DurableObjectStub<TriageAgent>): Promise<UIMessage[]> =>
    stub.threadMessages("orders");
  expectTypeOf(read).toBeFunction();
  const parts = async (stub: DurableObjectStub<TriageAgent>) => {
    const [first] = (await stub.threadMessages("orders")).flatMap((message) => message.parts);
    return first?.type === "text" ? first.text : undefined;
  };
  expectTypeOf(parts).returns.resolves.toEqualTypeOf<string | undefined>();
  expectTypeOf<TriageAgent["threadMessages"]>().returns.resolves.toExtend<UIMessage[]>();
});

it("L7: all times of a record are epoch milliseconds, also over RPC", () => {
  const schedules = (stub: DurableObjectStub<TriageAgent>) => capabilitiesOf(stub).schedules;
  type Schedules = ReturnType<typeof schedules>;
  type Run = Awaited<ReturnType<Schedules["trigger"]>>;
  expectTypeOf<Run["scheduledFor"]>().toEqualTypeOf<number>();
  expectTypeOf<Run["endedAt"]>().toEqualTypeOf<number | undefined>();
  expectTypeOf<Schedules["skipNext"]>().returns.resolves.toEqualTypeOf<number | null>();
  const options = (given: ListSubmissionsOptions) => given;
  options({ createdAfter: new Date(), createdBefore: Date.now() });
  options({ createdAfter: "2026-01-05T09:00:00Z" });
});

it("perdure/think has Think's types, and its own in the place of those with the same name", () => {
  expectTypeOf<TurnContext>().toEqualTypeOf<ThinkTurnContext>();
  expectTypeOf<ChatResponseResult>().toEqualTypeOf<ThinkChatResponseResult>();
  expectTypeOf<ReturnType<typeof defineScheduledTasks>>().toEqualTypeOf<ThinkScheduledTasks>();
  expectTypeOf<SubmitMessagesResult["conflict"]>().toEqualTypeOf<boolean | undefined>();
  expectTypeOf<SubmissionInspection>().toExtend<ThinkSubmissionInspection>();
});

it("an output has the type of its schema, by the id that the acceptance returns", () => {
  type Agent = Pick<TriageAgent, "submitMessages" | "waitForSubmission" | "inspectSubmission">;
  type Draft = z.infer<typeof draftSchema>;
  const asked = async (agent: Agent) => {
    const { submissionId } = await agent.submitMessages([], { output: draftSchema, repair: 1 });
    const ended = await agent.waitForSubmission(submissionId, { timeoutMs: 1 });
    // @ts-expect-error it may not have completed
    ended.output;
    return ended?.status === "completed" ? ended.output : null;
  };
  expectTypeOf(asked).returns.resolves.toEqualTypeOf<Draft | null>();
  const text = async (agent: Agent) => {
    const { submissionId } = await agent.submitMessages([], { idempotencyKey: "k" });
    const found = await agent.inspectSubmission(submissionId);
    return found?.output;
  };
  expectTypeOf(text).returns.resolves.toEqualTypeOf<string | undefined>();
  const stored = async (agent: Agent, id: string) => (await agent.inspectSubmission(id))?.output;
  expectTypeOf(stored).returns.resolves.toEqualTypeOf<Json | undefined>();
  const plain = async (agent: Agent) =>
    (await agent.submitMessages([], { output: jsonSchemaOf(draftSchema) })).output;
  expectTypeOf(plain).returns.resolves.toEqualTypeOf<Json | undefined>();
  // What is stored is what the schema takes: coercion takes anything, a transform comes later.
  const tolerant = z.object({
    at: z.string().transform((text) => text.length),
    n: z.coerce.number(),
  });
  const taken = async (agent: Agent) =>
    (await agent.submitMessages([], { output: tolerant })).output;
  expectTypeOf(taken).returns.resolves.toEqualTypeOf<{ at: string; n: unknown } | undefined>();
  const read = async (agent: Agent) => readOutput(tolerant, await agent.inspectSubmission("s"));
  expectTypeOf(read).returns.resolves.toEqualTypeOf<{ at: number; n: number }>();
  const remote = () => env.ThinkAgent.getByName("types").waitForSubmission("x");
  type Waited = NonNullable<Awaited<ReturnType<typeof remote>>>;
  expectTypeOf<Waited["output"]>().toEqualTypeOf<Json | undefined>();
  const submitted = () => env.ThinkAgent.getByName("types").submitMessages([]);
  type Submitted = Awaited<ReturnType<typeof submitted>>;
  expectTypeOf<Submitted["output"]>().toEqualTypeOf<Json | undefined>();
});

it("an override of submitMessages() with Think's types compiles beside typed outputs", () => {
  class Stamped extends DurableThink<Cloudflare.Env> {
    override async submitMessages(messages: UIMessage[], options?: ThinkOptions) {
      const result: ThinkResult = await super.submitMessages(messages, options);
      return result;
    }
  }
  expectTypeOf<Stamped>().toExtend<Think<Cloudflare.Env>>();
});

it("props of an agent are any object, such as an interface", () => {
  interface Login {
    readonly user: string;
  }
  type On<Host> = Host extends { readonly name: string } ? true : never;
  expectTypeOf<On<DurableThink<Cloudflare.Env, unknown, Login>>>().toEqualTypeOf<true>();
  expectTypeOf<On<agent.DurableAgent<Cloudflare.Env, unknown, Login>>>().toEqualTypeOf<true>();
  expectTypeOf<On<DurableChatAgent<Cloudflare.Env, unknown, Login>>>().toEqualTypeOf<true>();
});

it("options catch mistakes where they are written", () => {
  const options = (given: SubmitMessagesOptions) => given;
  options({ thread: "isolated", expiresIn: "1.5 hours", debounce: { key: "k", delay: 500 } });
  options({ thread: "any name", whenBusy: "steer" });
  // @ts-expect-error there is no such unit
  options({ expiresIn: "1 fortnight" });
  // @ts-expect-error there is no such answer to a busy thread
  options({ whenBusy: "panic" });
  // @ts-expect-error a budget says of what
  options({ budget: 1_000 });
});

/** What each entry exports, and the files whose docstrings say what its verbs throw. */
const ENTRIES: readonly { exported: object; documentedIn: RegExp }[] = [
  { exported: think, documentedIn: /hosts\/(verbs|think\/durable-think)\.ts$/ },
  { exported: agent, documentedIn: /hosts\/agent\/durable-agent\.ts$/ },
  { exported: object, documentedIn: /hosts\/object\/durable\.ts$/ },
  { exported: limits, documentedIn: /limits\/(declared\/declarations|controls)\.ts$/ },
  { exported: deploy, documentedIn: /deploy\/deployments\.ts$/ },
  { exported: streams, documentedIn: /streams\/cursor\.ts$/ },
  { exported: inbound, documentedIn: /inbound\/(links|feature|inbound|calls)\.ts$/ },
  { exported: react, documentedIn: /react\/follow\.ts$/ },
  { exported: workflow, documentedIn: /workflow\/(steps|think-workflow)\.ts$/ },
  { exported: codemode, documentedIn: /codemode\/(step|with-codemode)\.ts$/ },
  { exported: outbox, documentedIn: /outbox\/(outbox|destinations|dedupe)\.ts$/ },
  {
    exported: scheduler,
    documentedIn:
      /scheduler\/(scheduler|create-once|language\/parse|calendar\/(explain|occurrences))\.ts$/,
  },
  { exported: submissions, documentedIn: /submissions\/errors\.ts$/ },
  { exported: operator, documentedIn: /operator\/(listing|client|actions\/(audit|operate))\.ts$/ },
  { exported: testing, documentedIn: /testing\/(virtual-clock|crash-matrix|scripted-model)\.ts$/ },
];

/** Errors that no caller gets, and why. */
const INTERNAL: Readonly<Record<string, string>> = {
  TurnRefused: "a host stops a turn by it",
  Mismatch: "the parser catches it, and throws a ScheduleSyntaxError",
  PreemptedError: "an attempt of a delivery fails by it, and is repeated",
  EndpointError: "an attempt of a delivery fails by it, and is repeated",
  NotNeededError: "a delivery is discarded by it; only its text is shown",
  TimeoutError: "a hook or an attempt is given up by it; only its text is shown",
  RefusedRequest: "a receiver answers with its status and text",
  InvalidBodyError: "a source drops or rejects a delivery by it; only its text is shown",
  EmailTooLargeError: "an e-mail is rejected by it; only its text is shown",
  MalformedEmailError: "an e-mail is rejected by it; only its text is shown",
  UnauthenticatedError: "an e-mail is rejected by it; only its text is shown",
  CliError: "ends the command line with its text",
  ProjectError: "ends the command line with its text",
  NoAnswerError: "a check before a deploy lists its text",
  HttpError: "the operator API answers with its text",
  NotFoundError: "a tool of the MCP server answers with its text",
  HeldError: "the platform gets its text, which the sender's server may log",
  IncompleteReplyError: "ends a submission, whose errorName it is",
  InvalidModelResponseError: "ends a submission, in the same way",
  MissingToolCallError: "ends a submission, in the same way",
  TurnError: "ends a submission, in the same way",
  LimitWaitError: "ends an attempt; the ledger catches it, and the submission waits",
  DollarBudgetExceededError: "ends a submission; its name is that of BudgetExceededError",
  InvalidKeeperCallError: "an agent of another version has called a keeper; only its text is shown",
  UnknownSubmissionError: "a tool of the MCP server answers with its text",
};
/** Of the platform. */
const FOREIGN = [
  "Error",
  "TypeError",
  "RangeError",
  "NonRetryableError",
  // Of `perdure/operator`: an agent that can throw it has imported `operations()` from there.
  "InvalidOperationError",
  // Of `perdure/streams`, in the same way.
  "InvalidFollowError",
  "TooManyFollowersError",
  // Of `perdure/inbound`, in the same way.
  "InvalidArrivalError",
  "ReplayError",
];

const sources = import.meta.glob<string>("../src/**/*.ts", {
  query: "?raw",
  import: "default",
  eager: true,
});

it("every error class that a caller can get is exported", () => {
  const texts = Object.values(sources);
  const classes = texts.flatMap((text) =>
    [...text.matchAll(/(?<!abstract )class (\w+) extends \w*Error\b/g)].map(
      ([, name = ""]) => name,
    ),
  );
  expect(classes.length).toBeGreaterThan(40);
  const exported = new Set(ENTRIES.flatMap((entry) => Object.keys(entry.exported)));
  const missing = classes.filter((name) => !exported.has(name));
  expect(missing.toSorted()).toEqual(Object.keys(INTERNAL).toSorted());
});

it("every exported error class has a line in docs/errors.md", () => {
  const pages = import.meta.glob<string>("../docs/errors.md", {
    query: "?raw",
    import: "default",
    eager: true,
  });
  const page = pages["../docs/errors.md"] ?? "";
  const names = ENTRIES.flatMap(({ exported }) => Object.keys(exported).filter(isError));
  expect(names.filter((name) => !page.includes(`\`${name}\``))).toEqual([]);
});

it("every entry exports the errors that the docstrings of its verbs name", () => {
  for (const { exported, documentedIn } of ENTRIES) {
    const files = Object.entries(sources).filter(([file]) => documentedIn.test(file));
    expect(files.length, String(documentedIn)).toBeGreaterThan(0);
    const named = files.flatMap(([, text]) =>
      [...text.matchAll(/@throws ((?:\w+(?:, )?)+)/g)].flatMap(([, names = ""]) =>
        names.split(", "),
      ),
    );
    const errors = named.filter((name) => name.endsWith("Error") && !FOREIGN.includes(name));
    expect(errors.filter((name) => !(name in exported))).toEqual([]);
  }
  // What the verbs of a Think agent hand through.
  const handed = [submissions, outbox].flatMap((room) => Object.keys(room)).filter(isError);
  const own = ["UndeliverableError", "RefusedError"];
  expect(handed.filter((name) => !(name in think) && !own.includes(name))).toEqual([]);
});

function isError(name: string): boolean {
  return name.endsWith("Error");
}

/** As code for Think has it, with only the base class changed. */
class StampedAgent extends DurableThink<Cloudflare.Env> {
  override async submitMessages(
    messages: UIMessage[],
    options?: ThinkOptions,
  ): Promise<ThinkResult> {
    const metadata = { ...options?.metadata, stamped: true };
    return super.submitMessages(messages, { ...options, metadata });
  }

  protected override async onSubmissionStatus(submission: ThinkSubmissionInspection) {
    await this.ctx.storage.put(submission.submissionId, submission.requestId);
  }
}

it("the verbs for operators keep their types over RPC", () => {
  type Stub = DurableObjectStub<TriageAgent>;
  const operations = (agent: Stub) => capabilitiesOf(agent).operations;
  type Verbs = ReturnType<typeof operations>;
  type Remote<Name extends keyof Verbs> = Awaited<ReturnType<Verbs[Name]>>;
  expectTypeOf<Remote<"operate">>().toExtend<OperateResult>();
  expectTypeOf<Remote<"operate">["count"]>().toEqualTypeOf<number>();
  expectTypeOf<Remote<"listActions">>().toExtend<Page<AuditEntry>>();
  expectTypeOf<Remote<"listThreads">["items"][number]["open"]>().toEqualTypeOf<number>();
  expectTypeOf<Remote<"listThreadMessages">["items"][number]["role"]>().toEqualTypeOf<string>();
  expectTypeOf<Remote<"listWorkflows">["cursor"]>().toEqualTypeOf<string | undefined>();
  expectTypeOf<NonNullable<Remote<"inspectWorkflow">>>().toExtend<WorkflowDetails>();
  const action = { do: "cancel", submissionId: "s" } as const;
  const asked = (agent: Stub) => operations(agent).operate({ action, by: "ada", reason: "why" });
  const mistaken = (agent: Stub) =>
    // @ts-expect-error there is no such action
    operations(agent).operate({ action: { do: "destroy" }, by: "ada", reason: "why" });
  const nameless = (agent: Stub) =>
    // @ts-expect-error it says who acts
    operations(agent).operate({ action, reason: "why" });
  expectTypeOf([asked, mistaken, nameless]).toBeArray();
});

it("an override of submitMessages() with Think's types compiles, and calls keep Perdure's result", () => {
  expectTypeOf<StampedAgent>().toExtend<Think<Cloudflare.Env>>();
  const submit = (agent: DurableThink, messages: UIMessage[], options: SubmitMessagesOptions) =>
    [agent.submitMessages(messages), agent.submitMessages(messages, options)] as const;
  type Called = Awaited<ReturnType<typeof submit>[number]>;
  expectTypeOf<Called>().toExtend<SubmitMessagesResult>();
  type Stub = DurableObjectStub<TriageAgent>;
  type Remote = Awaited<ReturnType<Stub["submitMessages"]>>;
  expectTypeOf<Remote["attempts"]>().toEqualTypeOf<number>();
  const mistaken = (agent: DurableThink) =>
    // @ts-expect-error there is no such option
    agent.submitMessages([], { submissionId: "s", thred: "side" });
  expectTypeOf(mistaken).toBeFunction();
});

it("a JSON Schema is an `output`, also over RPC", () => {
  const constant = { type: "object", properties: { total: { type: "number" } } } as const;
  const submit = (agent: DurableThink, stub: DurableObjectStub<TriageAgent>) => [
    agent.submitMessages([], { output: { type: "object", properties: {} } }),
    stub.submitMessages([], { output: { type: "object", properties: {} } }),
    stub.submitMessages([], { output: constant }),
    stub.submitMessages([], { output: jsonSchemaOf(z.object({ total: z.number() })) }),
  ];
  expectTypeOf(submit).toBeFunction();
});

it("a step of a durable tool returns what JSON can hold", () => {
  interface Receipt {
    readonly id: string;
    readonly lines: readonly { readonly cents: number; readonly note?: string }[];
  }
  const steps = async (step: ToolStep, pay: () => Promise<Receipt>, any: () => unknown) => {
    expectTypeOf(await step.do("pay", pay)).toEqualTypeOf<Receipt>();
    expectTypeOf(await step.do("nothing", () => {})).toEqualTypeOf<void>();
    expectTypeOf(await step.do("unknown", any)).toEqualTypeOf<unknown>();
    expectTypeOf(await step.do("text", async () => "a" as const)).toEqualTypeOf<"a">();
    // @ts-expect-error it would be a text after a repetition
    await step.do("date", () => new Date());
    // @ts-expect-error JSON has no bigint
    await step.do("bigint", () => ({ cents: 10n }));
    // @ts-expect-error JSON has no functions
    await step.do("function", () => [() => 1]);
    // @ts-expect-error JSON has no maps
    await step.do("map", async () => new Map<string, number>());
  };
  expectTypeOf(steps).toBeFunction();
});

it("a race has the value of the branch that has won", () => {
  const raced = async (step: ThinkWorkflowStep) => {
    const end = await step.race("first", {
      late: step.sleep("limit", "1 day"),
      text: step.prompt("ask", { prompt: "Write." }),
      decision: step.approval("decide", { schema: z.object({ amount: z.number() }) }),
    });
    if (end.winner === "late") expectTypeOf(end.value).toEqualTypeOf<void>();
    if (end.winner === "text") expectTypeOf(end.value).toEqualTypeOf<string>();
    if (end.winner === "decision" && end.value.approved)
      expectTypeOf(end.value.payload).toEqualTypeOf<{ amount: number }>();
    return end.winner;
  };
  expectTypeOf(raced).returns.resolves.toEqualTypeOf<"late" | "text" | "decision">();
});
