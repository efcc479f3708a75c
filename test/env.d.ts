/** The bindings of `wrangler.jsonc`. */
declare namespace Cloudflare {
  interface Env {
    ThinkAgent: DurableObjectNamespace<import("./support/think-agent.ts").ThinkAgent>;
    ToolAgent: DurableObjectNamespace<import("./support/tool-agent.ts").ToolAgent>;
    Till: DurableObjectNamespace<import("./support/tool-agent.ts").Till>;
    AnswerObject: DurableObjectNamespace<import("./support/answer-object.ts").AnswerObject>;
    ToolChild: DurableObjectNamespace<import("./support/agent-tool-agents.ts").ToolChild>;
    ToolParent: DurableObjectNamespace<import("./support/agent-tool-agents.ts").ToolParent>;
    ImpatientToolParent: DurableObjectNamespace<
      import("./support/agent-tool-agents.ts").ImpatientToolParent
    >;
    LedgerObject: DurableObjectNamespace<import("./support/ledger-object.ts").LedgerObject>;
    WaitsObject: DurableObjectNamespace<import("./support/waits-object.ts").WaitsObject>;
    OutboxObject: DurableObjectNamespace<import("./support/outbox-object.ts").OutboxObject>;
    PlantedObject: DurableObjectNamespace<import("./support/planted-object.ts").PlantedObject>;
    BuiltInAgent: DurableObjectNamespace<import("./support/built-in.ts").BuiltInAgent>;
    MovedAgent: DurableObjectNamespace<import("./support/moved.ts").MovedAgent>;
    SdkObject: DurableObjectNamespace<import("./support/sdk-object.ts").SdkObject>;
    Receiver: DurableObjectNamespace<import("./support/recipients.ts").Receiver>;
    ReceiverAgent: DurableObjectNamespace<import("./support/recipients.ts").ReceiverAgent>;
    OutboxAgent: DurableObjectNamespace<import("./support/outbox-agent.ts").OutboxAgent>;
    SchedulerObject: DurableObjectNamespace<
      import("./support/scheduler-object.ts").SchedulerObject
    >;
    SchedulerAgent: DurableObjectNamespace<import("./support/scheduler-agent.ts").SchedulerAgent>;
    CodemodeAgent: DurableObjectNamespace<import("./support/codemode-agent.ts").CodemodeAgent>;
    PeerThink: DurableObjectNamespace<import("./peers/app.ts").PeerAgent>;
    PeerDurable: DurableObjectNamespace<import("./peers/app.ts").PeerAgent>;
    LOADER: WorkerLoader;
    CODEMODE_WORKFLOW: Workflow;
    PROMPT_WORKFLOW: Workflow;
    PLOT_WORKFLOW: Workflow;
    PROMPT_ALL_WORKFLOW: Workflow;
    APPROVAL_WORKFLOW: Workflow;
    AGENT_TOOL_WORKFLOW: Workflow;
    BUILT_IN_WORKFLOW: Workflow;
    MOVED_WORKFLOW: Workflow;
    WAITING_WORKFLOW: Workflow;
    PEER_BUILT_IN_WORKFLOW: Workflow;
    PEER_PERDURE_WORKFLOW: Workflow;
    QUEUE: Queue;
  }
}

/** Of Vite, which makes it a list of modules. */
interface ImportMeta {
  glob<T>(
    pattern: string,
    options: { query: "?raw"; import: "default"; eager: true },
  ): Record<string, T>;
}
