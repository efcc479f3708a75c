/** An agent on a host, by verbs that reconnect after a crash. */

import type { AgentVerbs } from "../../src/hosts/verbs.ts";
import type { Count } from "../../src/testing/index.ts";
import type { HostAgent } from "../../src/workflow/agent/host-agent.ts";
import { counted, until } from "../support/given.ts";

/** Verbs that every host has. */
export type Verbs = Pick<AgentVerbs, "inspectSubmission" | "runWorkflow" | "submitMessages"> &
  Pick<HostAgent, "getWorkflow" | "restartWorkflow">;

export type Host = {
  /** The class of the object. */
  readonly objects: DurableObjectNamespace<undefined>;
  /** The agent of that name. A new stub at each call. */
  readonly at: (name: string) => Promise<Verbs>;
  readonly workflow: string;
  readonly workflows: Workflow;
};

let made = 0;

/** An agent of this host, with stubs that are made anew after a crash. */
export class Given {
  readonly name = `contract-${++made}-${crypto.randomUUID()}`;

  constructor(readonly host: Host) {}

  verbs(): Promise<Verbs> {
    return this.host.at(this.name);
  }

  get root(): DurableObjectStub {
    return this.host.objects.getByName(this.name) as unknown as DurableObjectStub;
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
