/**
 * One agent for each issue or pull request. It stores every delivery, starts one workflow for each, answers the workflows'
 * prompts, and stores approvals and labels.
 */

import type { LanguageModel } from "ai";
import { DurableThink } from "perdure/think";
import { countedModel } from "./counted-model.ts";
import type { Env } from "./env.ts";
import { modelFor } from "./model.ts";
import { TriageStore } from "./store.ts";
import {
  type AgentReport,
  type Receipt,
  SYSTEM_PROMPT,
  type Triage,
  type TriageEvent,
} from "./triage.ts";

export class TriageAgent extends DurableThink<Env> {
  readonly #store = new TriageStore(this.ctx.storage);
  readonly #turnsRunning = new Map<number, { delivery: string; since: number }>();

  override getModel(): LanguageModel {
    return countedModel(modelFor(this.env), {
      started: (delivery) => {
        const call = this.#store.callStarted(delivery);
        this.#turnsRunning.set(call, { delivery, since: Date.now() });
        return call;
      },
      answered: (call) => this.#store.callAnswered(call),
      ended: (call) => void this.#turnsRunning.delete(call),
    });
  }

  override getSystemPrompt(): string {
    return SYSTEM_PROMPT;
  }

  /**
   * Resolves when the delivery is stored and its workflow exists. Both commit together, and survive a crash. A repeated
   * delivery starts nothing.
   */
  async receiveDelivery(event: TriageEvent): Promise<Receipt> {
    const { delivery } = event;
    const id = `triage-${delivery}`;
    let accepted = false;
    await this.ctx.storage.transactionSync(() => {
      accepted = this.#store.receive(event, id);
      const options = { id, metadata: { delivery }, ifExists: "return" } as const;
      return this.runWorkflow("TRIAGE_WORKFLOW", event, options);
    });
    return { delivery, workflowId: id, accepted };
  }

  requestApproval(delivery: string, triage: Triage): void {
    this.#store.requestApproval(delivery, triage);
  }

  /**
   * Approves one delivery. Returns false when it does not wait, or when a crash interrupted the start of its workflow, which
   * the agent tracks again within seconds. Sends the event before it stores the approval: after a crash in between, the
   * delivery still waits, and a second approval changes nothing.
   */
  async approveDelivery(delivery: string, approvedBy: string): Promise<boolean> {
    const workflowId = this.#store.waitingWorkflow(delivery);
    if (!workflowId || !this.getWorkflow(workflowId)) return false;
    await this.approveWorkflow(workflowId, { metadata: { approvedBy } });
    this.#store.approved(delivery, approvedBy);
    return true;
  }

  applyLabels(delivery: string, triage: Triage): void {
    this.#store.writeLabels(delivery, triage);
  }

  async report(options: { platform: boolean }): Promise<AgentReport> {
    const now = Date.now();
    const deliveries = this.#store.deliveries();
    if (options.platform) {
      await Promise.all(
        deliveries.map(async (row) => {
          row.platformStatus = await this.#platformStatus(row.workflowId);
        }),
      );
    }
    return {
      agent: this.name,
      labels: this.#store.labels(),
      workflows: this.getWorkflows({ limit: 1 }).total,
      turnsRunning: [...this.#turnsRunning.values()].map((turn) => ({
        delivery: turn.delivery,
        ageMs: now - turn.since,
      })),
      deliveries,
    };
  }

  /**
   * For local development. Cloudflare resumes workflows after a machine failure. The local engine resumes a workflow only
   * when it receives an event. No workflow waits for this event, so it only wakes them.
   */
  async wakeWorkflows(): Promise<number> {
    const wakes = this.#store.deliveries().map(async ({ workflowId }) => {
      const status = await this.#platformStatus(workflowId);
      if (TERMINAL.includes(status) || status === NOT_FOUND) return false;
      await this.sendWorkflowEvent("TRIAGE_WORKFLOW", workflowId, { type: "wake", payload: {} });
      return true;
    });
    return (await Promise.all(wakes)).filter(Boolean).length;
  }

  override async onWorkflowComplete(_workflowName: string, workflowId: string): Promise<void> {
    this.#store.settled(workflowId, "complete", null);
  }

  override async onWorkflowError(
    _workflowName: string,
    workflowId: string,
    error: string,
  ): Promise<void> {
    this.#store.settled(workflowId, "errored", error);
  }

  async #platformStatus(workflowId: string): Promise<string> {
    try {
      return (await this.getWorkflowStatus("TRIAGE_WORKFLOW", workflowId)).status;
    } catch (error) {
      if (String(error).includes("not_found")) return NOT_FOUND;
      throw error;
    }
  }
}

const NOT_FOUND = "not found";
const TERMINAL = ["complete", "errored", "terminated"];
