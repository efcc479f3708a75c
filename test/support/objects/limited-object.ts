/** A plain Durable Object with the model and the features that its test gives it, also after a crash. */

import type { LanguageModel, ToolSet } from "ai";
import type { Problem } from "../../../src/core/problems.ts";
import { type Durable, durable } from "../../../src/hosts/object/index.ts";
import { ScriptedModel } from "../../../src/testing/index.ts";
import type { Feature } from "../../../src/workflow/agent/kernel.ts";
import { MeteredObject } from "./metered-object.ts";

export type LimitedApp = {
  readonly features?: readonly Feature[];
  readonly model?: LanguageModel;
  readonly tools?: ToolSet;
  readonly problems?: Problem[];
};

/** By the object's name. */
export const limitedApps = new Map<string, LimitedApp>();

export class LimitedObject extends MeteredObject {
  readonly durable: Durable;
  /** What methods of the object got, as destinations of the outbox. */
  readonly got: unknown[] = [];

  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    super(ctx, env);
    const {
      features = [],
      model = new ScriptedModel(),
      tools,
      problems,
    } = limitedApps.get(ctx.id.name ?? "") ?? {};
    this.durable = durable(this, {
      ...{ model, features },
      ...(tools && { tools }),
      ...(problems && { onProblem: (problem: Problem) => void problems.push(problem) }),
    });
  }

  notified(event: unknown): void {
    this.got.push(event);
  }
}
