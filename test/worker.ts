/** The worker of the tests that need Think: all that the other one has, and agents of Think. */

export * from "./rooms-worker.ts";
export { default } from "./rooms-worker.ts";
export { BuiltInAgent, BuiltInWorkflow } from "./support/built-in.ts";
export { ThinkAgent } from "./support/think-agent.ts";
