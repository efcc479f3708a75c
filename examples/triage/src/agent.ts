/**
 * One agent for each issue or pull request: it remembers every delivery, starts one workflow for each, answers the
 * workflows' prompts, keeps what waits for a person, and holds the labels.
 *
 * A delivery is stored before its workflow is created, under an instance id made from the delivery's own id. Whatever
 * crashes between the two, the next delivery of the same event or the next start of the agent finds the row and finishes
 * the job; asking the platform for the instance first keeps it from being started twice.
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
  /** Starts under way, so that two deliveries of one event at the same moment share one. */
  readonly #starts = new Map<string, Promise<void>>();
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

  override async onStart(): Promise<void> {
    const unsettled = this.#store.unsettled();
    const starts = await Promise.allSettled(
      unsettled.map(({ event }) => this.#ensureWorkflow(event)),
    );
    for (const start of starts) {
      // The agent must come up all the same: the row stays, and the next start or delivery tries again.
      if (start.status === "rejected")
        console.error("A delivery's workflow could not be started.", start.reason);
    }
  }

  /** Resolves once the delivery is stored and its workflow exists. The same delivery again starts nothing. */
  async receiveDelivery(event: TriageEvent): Promise<Receipt> {
    const workflowId = workflowIdFor(event.delivery);
    const accepted = this.#store.receive(event, workflowId);
    const unstarted = this.#store.unstarted(event.delivery);
    if (unstarted) await this.#ensureWorkflow(unstarted);
    return { delivery: event.delivery, workflowId, accepted };
  }

  requestApproval(delivery: string, triage: Triage): void {
    this.#store.requestApproval(delivery, triage);
  }

  /**
   * Opens the gate of one delivery. False when nothing waits there. The event is sent before it is noted down: a crash
   * between the two leaves the delivery waiting, and a second approval of the same gate changes nothing.
   */
  async approveDelivery(delivery: string, approvedBy: string): Promise<boolean> {
    const workflowId = this.#store.waitingWorkflow(delivery);
    if (!workflowId) return false;
    if (this.getWorkflow(workflowId))
      await this.approveWorkflow(workflowId, { metadata: { approvedBy } });
    else await this.#approveUntracked(workflowId, approvedBy);
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
   * For local development. Cloudflare resumes the workflows of a machine that died by itself; the local engine keeps them
   * on disk and resumes one only when an event reaches it. No workflow waits for this event, so it does nothing but wake.
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

  #ensureWorkflow(event: TriageEvent): Promise<void> {
    const running = this.#starts.get(event.delivery);
    if (running) return running;
    const start = this.#startWorkflow(event).finally(() => this.#starts.delete(event.delivery));
    this.#starts.set(event.delivery, start);
    return start;
  }

  async #startWorkflow(event: TriageEvent): Promise<void> {
    const id = workflowIdFor(event.delivery);
    const status = await this.#platformStatus(id);
    // runWorkflow() creates the instance and then tracks it. A crash can leave a tracking row whose instance the local
    // engine never wrote to disk; it would stand in the way of creating the instance.
    if (status === NOT_FOUND) {
      this.deleteWorkflow(id);
      await this.runWorkflow("TRIAGE_WORKFLOW", event, {
        id,
        metadata: { delivery: event.delivery },
      });
    }
    this.#store.started(event.delivery);
  }

  /** What approveWorkflow() sends, for an instance that a crash separated from its tracking row. */
  #approveUntracked(workflowId: string, approvedBy: string): Promise<void> {
    const payload = { approved: true, metadata: { approvedBy } };
    return this.sendWorkflowEvent("TRIAGE_WORKFLOW", workflowId, { type: "approval", payload });
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

function workflowIdFor(delivery: string): string {
  return `triage-${delivery}`;
}
