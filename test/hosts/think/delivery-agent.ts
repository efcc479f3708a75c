/** An agent that overrides the verbs that deliveries call, and has methods of its own. */

import type { UIMessage } from "ai";
import type { SubmitMessagesOptions } from "../../../src/submissions/submit-options.ts";
import type { RunWorkflow } from "../../../src/workflow/agent/workflows.ts";
import { ThinkAgent } from "../../support/think-agent.ts";

export class DeliveryAgent extends ThinkAgent {
  override async submitMessages(messages: UIMessage[], options: SubmitMessagesOptions = {}) {
    this.noteCall(`submitMessages ${options.idempotencyKey}`);
    const metadata = { ...options.metadata, by: "the app" };
    return super.submitMessages(messages, { ...options, metadata });
  }

  override async runWorkflow(name: never, params: unknown, options: RunWorkflow = {}) {
    this.noteCall(`runWorkflow ${options.id} ${options.ifExists}`);
    return super.runWorkflow(name, params, options);
  }

  /** Returns no promise. */
  noteCall(text: string): number {
    const { sql } = this.ctx.storage;
    sql.exec("CREATE TABLE IF NOT EXISTS notes (text TEXT)");
    sql.exec("INSERT INTO notes VALUES (?)", text);
    return sql.exec("SELECT text FROM notes").toArray().length;
  }

  calls(): string[] {
    const { sql } = this.ctx.storage;
    sql.exec("CREATE TABLE IF NOT EXISTS notes (text TEXT)");
    return Array.from(sql.exec("SELECT text FROM notes").raw<[string]>(), ([text]) => text);
  }
}
