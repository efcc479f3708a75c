/** The shop: starts a workflow for each order, makes the links that approve them, and sends the e-mails. */

import { env as bindings } from "cloudflare:workers";
import type { AgentWorkflowEvent } from "agents/workflows";
import { inbound, signedLinks } from "perdure/inbound";
import { email, replies } from "perdure/replies";
import { DurableThink } from "perdure/think";
import { ThinkWorkflow, type ThinkWorkflowStep } from "perdure/workflow";

export interface Env extends Cloudflare.Env {
  Shop: DurableObjectNamespace<Shop>;
  ORDER: Workflow;
  EMAIL: SendEmail;
  /** The Worker's URL, for the links. */
  PUBLIC_URL: string;
  /** The secret that Stripe signs its events with. */
  STRIPE_SECRET: string;
  /** The secret that the links are signed with. */
  LINK_SECRET: string;
}

export type Order = { readonly id: string; readonly email: string; readonly amount: number };

export class OrderWorkflow extends ThinkWorkflow<Shop, Order> {
  override async run({ payload: order }: AgentWorkflowEvent<Order>, step: ThinkWorkflowStep) {
    const payment = await step.webhook("payment", {
      from: "stripe",
      type: "payment_intent.succeeded",
      match: { "data.object.metadata.orderId": order.id },
      timeout: "3 days",
    });
    const { approved } = await step.approval("ship", {
      title: `Ship order ${order.id} for ${order.amount} EUR?`,
      data: order,
      timeout: "3 days",
      onTimeout: "reject",
    });
    await step.do("reply", async () => {
      await this.agent.reply(order, approved);
    });
    return { payment: payment.id, approved };
  }
}

const { PUBLIC_URL } = bindings as Env;

export class Shop extends DurableThink<Env> {
  static override readonly features = [
    replies(),
    inbound(),
    signedLinks({ url: `${PUBLIC_URL}/hooks/links`, secret: "LINK_SECRET" }),
  ];

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.sql`CREATE TABLE IF NOT EXISTS replies (order_id TEXT PRIMARY KEY)`;
  }

  /** The same order again starts nothing. */
  async place(order: Order): Promise<string> {
    return this.runWorkflow("ORDER", order, { id: order.id, ifExists: "return" });
  }

  /** The order is marked and its e-mail is put into the outbox in one transaction: a repeated step changes nothing. */
  reply(order: Order, approved: boolean): void {
    this.ctx.storage.transactionSync(() => {
      const isNew = this
        .sql`INSERT INTO replies VALUES (${order.id}) ON CONFLICT DO NOTHING RETURNING 1`;
      if (isNew.length === 0) return;
      const subject = `Your order ${order.id} ${approved ? "is on its way" : "was cancelled"}`;
      this.outbox.put(
        email({ binding: "EMAIL", from: "shop@example.com", to: order.email, subject }),
        {
          text: `You paid ${order.amount} EUR. ${subject}.`,
        },
      );
    });
  }

  /** The status of an order, and the link that ships it while it waits for an approval. */
  async inspect(orderId: string) {
    const {
      items: [approval],
    } = await this.approvals.list({ workflowId: orderId });
    const { status, output, error } = await this.getWorkflowStatus("ORDER", orderId);
    const link =
      approval && (await this.approvals.link(approval.approvalId, "grant", { expiresIn: "1 day" }));
    return { status, output: output as object | undefined, error, link };
  }
}
