/**
 * A chat with an offline model that answers slowly. The routes are for local use: they do not authenticate users.
 *
 *   /agents/chat/<name>                  the WebSocket of useAgent() and useAgentChat()
 *   POST /ask/<id>                       submits { text } once for each id
 *   GET  /streams/chat/<name>/...        what useSubmission() follows
 *   GET  /health
 */

import type { OnChatMessageOptions } from "@cloudflare/ai-chat";
import { callable, getAgentByName, routeAgentRequest } from "agents";
import { convertToModelMessages, streamText } from "ai";
import { DurableChatAgent } from "perdure/chat";
import { followers, streams } from "perdure/streams";
import { SlowModel } from "../../react/src/slow-model.ts";

interface Env extends Cloudflare.Env {
  Chat: DurableObjectNamespace<Chat>;
}

export class Chat extends DurableChatAgent<Env> {
  static override readonly features = [followers()];

  override async onChatMessage(_onFinish: unknown, options?: OnChatMessageOptions) {
    const result = streamText(
      this.durable({
        model: new SlowModel(),
        messages: await convertToModelMessages(this.messages),
        ...(options?.abortSignal && { abortSignal: options.abortSignal }),
      }),
    );
    return result.toUIMessageStreamResponse();
  }

  /** Asks in the conversation; the turn is stored before this returns. */
  @callable()
  async ask(id: string, text: string): Promise<string> {
    const parts = [{ type: "text" as const, text }];
    const message = { id: `asked-${id}`, role: "user" as const, parts };
    const { submissionId } = await this.submitMessages([message], { submissionId: id });
    return submissionId;
  }
}

const followed = streams<Env>({
  agents: { chat: (env, name) => getAgentByName(env.Chat, name) },
  // Let your users follow only what is theirs.
  authorize: () => true,
});

export default {
  async fetch(request, env) {
    const [what = "", id = ""] = new URL(request.url).pathname.slice(1).split("/");
    if (what === "health") return Response.json({ ok: true });
    if (what === "ask" && id !== "" && request.method === "POST") {
      const { text } = await request.json<{ text: string }>();
      const chat = await getAgentByName(env.Chat, "main");
      return Response.json({ submissionId: await chat.ask(id, text) });
    }
    const response = (await followed(request, env)) ?? (await routeAgentRequest(request, env));
    return response ?? new Response("Not found", { status: 404 });
  },
} satisfies ExportedHandler<Env>;
