/** Bindings of `wrangler.jsonc`. */
declare namespace Cloudflare {
  interface Env {
    AcceptanceAgent: DurableObjectNamespace<import("./agent.ts").AcceptanceAgent>;
    AcceptanceChat: DurableObjectNamespace<import("./chat.ts").AcceptanceChat>;
    AcceptanceObject: DurableObjectNamespace<import("./object.ts").AcceptanceObject>;
    AcceptanceThink: DurableObjectNamespace<import("./think.ts").AcceptanceThink>;
    ACCEPTANCE_WORKFLOW: Workflow;
    ACCEPTANCE_OBJECT_WORKFLOW: Workflow;
    ACCEPTANCE_SDK_WORKFLOW: Workflow;
  }
}
