/** The bindings of `wrangler.jsonc`. */
declare namespace Cloudflare {
  interface Env {
    ThinkAgent: DurableObjectNamespace<import("./support/think-agent.ts").ThinkAgent>;
    ToolAgent: DurableObjectNamespace<import("./hosts/think/turns/tool-agent.ts").ToolAgent>;
    DeliveryAgent: DurableObjectNamespace<import("./hosts/think/delivery-agent.ts").DeliveryAgent>;
    Till: DurableObjectNamespace<import("./hosts/think/turns/tool-agent.ts").Till>;
    AlertsAgent: DurableObjectNamespace<import("./operator/alerts/alerts-agent.ts").AlertsAgent>;
    AlertsObject: DurableObjectNamespace<import("./operator/alerts/alerts-object.ts").AlertsObject>;
    AnswerObject: DurableObjectNamespace<import("./support/objects/answer-object.ts").AnswerObject>;
    ToolChild: DurableObjectNamespace<import("./support/workflows/agent-tool-agents.ts").ToolChild>;
    ToolParent: DurableObjectNamespace<
      import("./support/workflows/agent-tool-agents.ts").ToolParent
    >;
    ImpatientToolParent: DurableObjectNamespace<
      import("./support/workflows/agent-tool-agents.ts").ImpatientToolParent
    >;
    LedgerObject: DurableObjectNamespace<import("./support/objects/ledger-object.ts").LedgerObject>;
    InboundObject: DurableObjectNamespace<
      import("./support/objects/inbound-object.ts").InboundObject
    >;
    LIMIT_KEEPER: DurableObjectNamespace<import("./support/objects/keeper-object.ts").KeeperObject>;
    LimitedAgent: DurableObjectNamespace<import("./features/limits/limited-agent.ts").LimitedAgent>;
    LimitedObject: DurableObjectNamespace<
      import("./support/objects/limited-object.ts").LimitedObject
    >;
    WaitsObject: DurableObjectNamespace<import("./support/objects/waits-object.ts").WaitsObject>;
    OutboxObject: DurableObjectNamespace<import("./support/objects/outbox-object.ts").OutboxObject>;
    PlantedObject: DurableObjectNamespace<import("./testing/planted-object.ts").PlantedObject>;
    BuiltInAgent: DurableObjectNamespace<import("./hosts/think/built-in.ts").BuiltInAgent>;
    MovedAgent: DurableObjectNamespace<import("./hosts/think/moved/moved-app.ts").MovedAgent>;
    SdkObject: DurableObjectNamespace<import("./hosts/sdk/sdk-object.ts").SdkObject>;
    Receiver: DurableObjectNamespace<import("./outbox/recipients.ts").Receiver>;
    ReceiverAgent: DurableObjectNamespace<import("./outbox/recipients.ts").ReceiverAgent>;
    BareRoot: DurableObjectNamespace<import("./hosts/agent/roots-agents.ts").BareRoot>;
    PlainRoot: DurableObjectNamespace<import("./hosts/agent/roots-agents.ts").PlainRoot>;
    OutboxAgent: DurableObjectNamespace<import("./outbox/outbox-agent.ts").OutboxAgent>;
    SchedulerObject: DurableObjectNamespace<
      import("./support/objects/scheduler-object.ts").SchedulerObject
    >;
    SchedulerAgent: DurableObjectNamespace<import("./scheduler/scheduler-agent.ts").SchedulerAgent>;
    CodemodeAgent: DurableObjectNamespace<
      import("./features/codemode/steps/codemode-agent.ts").CodemodeAgent
    >;
    PeerThink: DurableObjectNamespace<import("./peers/app.ts").PeerAgent>;
    PeerDurable: DurableObjectNamespace<import("./peers/app.ts").PeerAgent>;
    AgentHost: DurableObjectNamespace<import("./contract/hosts/agent-host.ts").AgentHost>;
    ChatApp: DurableObjectNamespace<import("./hosts/chat/chat-app.ts").ChatApp>;
    PlainChat: DurableObjectNamespace<import("./hosts/chat/chat-app.ts").PlainChat>;
    VariantChat: DurableObjectNamespace<import("./hosts/chat/chat-app.ts").VariantChat>;
    ChatHost: DurableObjectNamespace<import("./contract/hosts/chat-host.ts").ChatHost>;
    ThinkHost: DurableObjectNamespace<import("./contract/hosts/think-host.ts").ThinkHost>;
    ObjectHost: DurableObjectNamespace<import("./contract/hosts/object-host.ts").ObjectHost>;
    AttackedObject: DurableObjectNamespace<
      import("./contract/hosts/attacked-object.ts").AttackedObject
    >;
    OfferAgent: DurableObjectNamespace<import("./contract/hosts/offer-agent.ts").OfferAgent>;
    OfferObject: DurableObjectNamespace<import("./contract/hosts/offer-object.ts").OfferObject>;
    OfferThink: DurableObjectNamespace<import("./contract/hosts/offer-think.ts").OfferThink>;
    StoredObject: DurableObjectNamespace<import("./contract/hosts/stored-object.ts").StoredObject>;
    SwapHost: DurableObjectNamespace<undefined>;
    OtherObject: DurableObjectNamespace<import("./contract/hosts/offer-object.ts").OtherObject>;
    CONTRACT_WORKFLOW: Workflow;
    OBJECT_WORKFLOW: Workflow;
    OBJECT_VERSIONED: Workflow;
    OFFER_WORKFLOW: Workflow;
    LOADER: WorkerLoader;
    CODEMODE_WORKFLOW: Workflow;
    PROMPT_WORKFLOW: Workflow;
    SCRIPTED_WORKFLOW: Workflow;
    DEPLOYED_WORKFLOW: Workflow;
    DeployedObject: DurableObjectNamespace<import("./features/deploy/deployed.ts").DeployedObject>;
    DeployedAgent: DurableObjectNamespace<import("./features/deploy/deployed.ts").DeployedAgent>;
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
    options: { query?: "?raw"; import?: "default"; eager: true },
  ): Record<string, T>;
}
