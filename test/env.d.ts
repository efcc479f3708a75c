/** The bindings of `wrangler.jsonc`. */
declare namespace Cloudflare {
  interface Env {
    ThinkAgent: DurableObjectNamespace<import("./support/think-agent.ts").ThinkAgent>;
    LedgerObject: DurableObjectNamespace<import("./support/ledger-object.ts").LedgerObject>;
    OutboxObject: DurableObjectNamespace<import("./support/outbox-object.ts").OutboxObject>;
    BuiltInAgent: DurableObjectNamespace<import("./support/built-in.ts").BuiltInAgent>;
    SdkObject: DurableObjectNamespace<import("./support/sdk-object.ts").SdkObject>;
    Receiver: DurableObjectNamespace<import("./support/recipients.ts").Receiver>;
    ReceiverAgent: DurableObjectNamespace<import("./support/recipients.ts").ReceiverAgent>;
    OutboxAgent: DurableObjectNamespace<import("./support/outbox-agent.ts").OutboxAgent>;
    SchedulerObject: DurableObjectNamespace<
      import("./support/scheduler-object.ts").SchedulerObject
    >;
    SchedulerAgent: DurableObjectNamespace<import("./support/scheduler-agent.ts").SchedulerAgent>;
    PROMPT_WORKFLOW: Workflow;
    BUILT_IN_WORKFLOW: Workflow;
    WAITING_WORKFLOW: Workflow;
    QUEUE: Queue;
  }
}
