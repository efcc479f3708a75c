/** A host under the contract, and what tests of every host use. */

import { runInDurableObject } from "cloudflare:test";
import { type HostName, LIMITATIONS } from "../../src/hosts/limitations.ts";
import type { AgentVerbs } from "../../src/hosts/verbs.ts";
import type { HostAgent } from "../../src/kernel/host-agent.ts";
import type { Count } from "../../src/testing/index.ts";
import { counted, until } from "../support/given.ts";

/** The verbs that the contract calls, as every host has them. */
export type Verbs = Pick<
  AgentVerbs,
  | "cancelSubmission"
  | "clearThread"
  | "followApproval"
  | "followSubmission"
  | "followThread"
  | "inspectSubmission"
  | "listSubmissions"
  | "retrySubmission"
  | "runWorkflow"
  | "submissionStats"
  | "submitMany"
  | "submitMessages"
  | "terminateWorkflow"
  | "threadMessages"
  | "waitForSubmission"
> &
  Pick<HostAgent, "getWorkflow" | "pauseWorkflow" | "restartWorkflow" | "resumeWorkflow"> & {
    clearMessages(): Promise<void>;
  };

export type ContractHost = {
  readonly name: HostName;
  /** The harness that runs the turns. */
  readonly harness?: "AiSdkHarness" | "ThinkHarness";
  /** Rows that an isolated turn with a notification writes, at most; by default 7. */
  readonly isolatedRows?: number;
  /** The class of the object. */
  readonly objects: DurableObjectNamespace<undefined>;
  /** The agent of that name. A new stub at each call. */
  readonly at: (name: string) => Promise<Verbs>;
  readonly workflow: string;
  readonly workflows: Workflow;
};

/** For the names of tests. */
export function titleOf({ name, harness }: ContractHost): string {
  return harness ? `${name} with ${harness}` : name;
}

let made = 0;

/** An agent of this host, with stubs that are made anew after a crash. */
export class Given {
  readonly name = `contract-${++made}-${crypto.randomUUID()}`;

  constructor(readonly host: ContractHost) {}

  verbs(): Promise<Verbs> {
    return this.host.at(this.name);
  }

  get root(): DurableObjectStub {
    return this.host.objects.getByName(this.name) as unknown as DurableObjectStub;
  }

  /** The object crashes. What it has committed stays. */
  async crash(): Promise<void> {
    await runInDurableObject(this.root, (_, ctx) => ctx.abort("crash")).catch(() => {});
  }

  /** Counts what `work`, and everything that it started, does to the object's storage. */
  counted(work: () => Promise<unknown>): Promise<Count> {
    return counted(this.root, work);
  }

  async ended(submissionId: string) {
    return until(async () => {
      const found = await (await this.verbs()).inspectSubmission(submissionId).catch(() => null);
      return found?.status !== "pending" && found?.status !== "running" && found;
    });
  }

  /** The texts of a thread, as `role: text`. */
  async texts(thread = "main"): Promise<string[]> {
    const messages = await (await this.verbs()).threadMessages(thread);
    return messages.map(
      ({ role, parts }) =>
        `${role}: ${parts.map((part) => (part.type === "text" ? part.text : "")).join("")}`,
    );
  }

  /** The output of a workflow, once it has ended. */
  async output(id: string): Promise<unknown> {
    const instance = await this.host.workflows.get(id);
    const { output } = await until(async () => {
      const found = await instance.status();
      if (found.status === "errored") throw new Error(JSON.stringify(found.error));
      return found.status === "complete" && found;
    });
    return output;
  }
}

/** Whether the host's table says that it can do this. */
export function supports({ name }: ContractHost, option: string): boolean {
  return !(option in LIMITATIONS[name]);
}

/** Whether a tool call that has begun is not repeated. */
export function recordsTools(host: ContractHost): boolean {
  return supports(host, "tools") || host.harness === "ThinkHarness";
}
