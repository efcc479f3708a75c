/** The agents of the examples: one with workflows, and one that is called as a tool. */

import { CodemodeConnector } from "@cloudflare/codemode";
import { createExecuteTool } from "@cloudflare/think/tools/execute";
import type { ToolSet } from "ai";
import { agentTools } from "perdure/agent-tools";
import { codemode } from "perdure/codemode";
import { DurableThink } from "perdure/think";
import { OfflineModel } from "./offline-model.ts";

export interface Env extends Cloudflare.Env {
  Desk: DurableObjectNamespace<Desk>;
  LOADER: WorkerLoader;
}

/** The connector of the codemode example. */
class Hotel extends CodemodeConnector<Env> {
  override name() {
    return "hotel";
  }

  protected override tools() {
    return {
      search: {
        description: "Free rooms of a city.",
        execute: async (args: unknown) => [{ id: `${(args as { city: string }).city}-12` }],
      },
      book: {
        description: "Books a room.",
        requiresApproval: true,
        execute: async (args: unknown) => ({ booking: `B-${(args as { room: string }).room}` }),
        revert: async () => {},
      },
    };
  }
}

export class Desk extends DurableThink<Env> {
  static override readonly features = [agentTools(), codemode()];

  override getModel() {
    return new OfflineModel();
  }

  override getTools(): ToolSet {
    return { execute: createExecuteTool(this, { connectors: [new Hotel(this.ctx, this.env)] }) };
  }

  async run(binding: string, params: unknown): Promise<string> {
    return this.runWorkflow(binding, params);
  }

  async statusOf(binding: string, id: string) {
    const { status, output, error } = await this.getWorkflowStatus(binding as never, id);
    return { status, output: output as object | undefined, error };
  }
}

/** Has one conversation for each run. */
export class Researcher extends DurableThink<Env> {
  override getModel() {
    return new OfflineModel();
  }

  override getSystemPrompt() {
    return "Research the topic, and end with a summary.";
  }
}
