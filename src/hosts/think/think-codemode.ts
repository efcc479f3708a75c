/** What a Think agent offers about the Code Mode executions of its workflows. */

import type { Think } from "@cloudflare/think";
import { type CodemodeRollback, rollBack } from "../../gates/index.ts";
import { codemodePort } from "./codemode-port.ts";
import { ThinkApprovals } from "./think-approvals.ts";
import { ROOMS } from "./think-rooms.ts";

export class ThinkCodemode<
  Env extends Cloudflare.Env = Cloudflare.Env,
  State = unknown,
  Props extends Record<string, unknown> = Record<string, unknown>,
> extends ThinkApprovals<Env, State, Props> {
  /**
   * For `step.codemode()` with `rollback`: reverts what an execution has applied. May be called again.
   *
   * @throws Error when a revert failed, or the execution is still under way
   */
  rollbackCodemode(gateId: string): Promise<CodemodeRollback> {
    return rollBack(this[ROOMS].gates, codemodePort(this as unknown as Think), gateId);
  }
}
