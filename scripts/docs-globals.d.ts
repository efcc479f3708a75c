/** Declares what the `ts` blocks of the Markdown files use without an import: the app of the page. */

type UIMessage = import("ai").UIMessage;
type TurnContext = import("perdure/think").TurnContext;
type Schema<Output> = import("zod").ZodType<Output>;

declare const AppAgent: typeof import("perdure/think").DurableThink<Env>;

/** The app's agent. */
declare class TriageAgent extends AppAgent {
  getModel(): string;
}
/** An agent with the methods that the steps of the page call. */
declare class SupportAgent extends TriageAgent {
  refund(amount: number): void;
}
declare class Researcher extends TriageAgent {}
declare const TicketWorkflowV7: import("perdure/deploy").WorkflowClass;
declare const TicketWorkflowV8: import("perdure/deploy").WorkflowClass;

declare interface Env extends Cloudflare.Env {
  OPENAI_API_KEY: string;
  readonly TriageAgent: DurableObjectNamespace<TriageAgent>;
  /** In the worker of the tests: a class that extends `crashable(TriageAgent)`. */
  readonly Triage: DurableObjectNamespace<TriageAgent>;
  readonly TRIAGE_WORKFLOW: Workflow;
  readonly REPORT_WORKFLOW: Workflow;
  readonly DIGEST_WORKFLOW: Workflow;
}

declare const env: Env;
declare const stub: DurableObjectStub<TriageAgent>;
declare const agent: DurableObjectStub<TriageAgent>;
declare const triage: DurableObjectStub<TriageAgent>;
declare const message: UIMessage;
declare const question: UIMessage;
declare const arrival: { readonly id: string };
declare const issue: number;
declare const order: string;
declare function pay(order: string): Promise<string>;
declare function statusOf(order: string): Promise<string>;
declare const topic: string;
declare const code: string;
declare const reviews: readonly { readonly id: string; readonly text: string }[];
declare const ticket: Schema<{ readonly title: string }>;
declare const mood: Schema<{ readonly isHappy: boolean }>;
declare const booking: Schema<{ readonly room: string }>;
