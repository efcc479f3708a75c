/**
 * An agent whose turns a ThinkHarness runs, with an offline model. The routes are for local use: they do not authenticate users.
 *
 *   POST /turns/<id>    submits { text } once for each id
 *   GET  /turns/<id>    returns the submission
 *   GET  /notes         returns what the tool has saved
 *   GET  /health
 */

import { getAgentByName } from "agents";
import { ThinkHarness } from "agents/harness/think";
import { tool } from "ai";
import { DurableHarness } from "perdure/harness";
import { ScriptedModel } from "perdure/testing";
import { z } from "zod";

interface Env extends Cloudflare.Env {
  Coder: DurableObjectNamespace<Coder>;
}

export class Coder extends DurableHarness<Env> {
  readonly harness = this.useHarness(
    new ThinkHarness({
      // It follows a script: it calls the tool, thinks for two seconds, and answers.
      model: new ScriptedModel({
        tool: { name: "saveNote", input: { text: "Durable turns on a harness" } },
        delayMs: 2_000,
        text: "I saved the note.",
      }),
      system: "You keep notes.",
      tools: {
        saveNote: tool({
          description: "Saves a note.",
          inputSchema: z.object({ text: z.string() }),
          execute: ({ text }) => this.saveNote(text),
        }),
      },
    }),
  );

  saveNote(text: string) {
    this.sql`CREATE TABLE IF NOT EXISTS notes (text TEXT)`;
    this.sql`INSERT INTO notes VALUES (${text})`;
    return "saved";
  }

  notes() {
    this.sql`CREATE TABLE IF NOT EXISTS notes (text TEXT)`;
    return this.sql<{ text: string }>`SELECT text FROM notes`;
  }
}

export default {
  async fetch(request, env) {
    const [what = "", id = ""] = new URL(request.url).pathname.slice(1).split("/");
    if (what === "health") return Response.json({ ok: true });
    const coder = await getAgentByName(env.Coder, "main");
    if (what === "notes") return Response.json(await coder.notes());
    if (what !== "turns" || id === "") return new Response("Not found", { status: 404 });
    if (request.method === "GET") return Response.json(await coder.inspectSubmission(id));
    const { text } = await request.json<{ text: string }>();
    const message = {
      id: `asked-${id}`,
      role: "user" as const,
      parts: [{ type: "text" as const, text }],
    };
    return Response.json(await coder.submitMessages([message], { submissionId: id }));
  },
} satisfies ExportedHandler<Env>;
