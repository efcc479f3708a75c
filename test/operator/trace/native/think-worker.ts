/** The same on Think: a turn of the agent's own conversation. */

import { tool } from "ai";
import { z } from "zod";
import { DurableThink } from "../../../../src/hosts/think/index.ts";
import { ScriptedModel } from "../../../../src/testing/scripted-model.ts";

export class TracedObject extends DurableThink<Cloudflare.Env> {
  override getModel() {
    return new ScriptedModel();
  }

  override getTools() {
    return { charge: tool({ inputSchema: z.object({}), execute: async () => "charged" }) };
  }

  async play(script: object): Promise<string> {
    const text = JSON.stringify(script);
    const message = { id: "m", role: "user" as const, parts: [{ type: "text" as const, text }] };
    const { submissionId } = await this.submitMessages([message]);
    await this.waitForSubmission(submissionId);
    return submissionId;
  }
}

type Env = { OBJECT: DurableObjectNamespace<TracedObject> };

export default {
  async fetch(request: Request, { OBJECT }: Env): Promise<Response> {
    const object = OBJECT.getByName("one") as unknown as TracedObject;
    return new Response(await object.play(await request.json()));
  },
};
