/** Events of modules: for the diagnostics channels of agents, and for a listener in the object. */

import type { LifecycleServices } from "agents/lifecycle";

/** The fields of events that a listener reads. */
export type ModuleEvent = {
  readonly type: string;
  readonly id?: string;
  readonly attempt?: number;
  readonly state?: string;
  readonly isBusy?: boolean;
};

/** By the object's storage. Without a listener, an event costs one look-up. */
export const listeners = new WeakMap<DurableObjectStorage, (event: ModuleEvent) => void>();

/** @param object without `events`: only the listener is told */
export function emit(
  {
    events,
    storage,
  }: Pick<LifecycleServices, "storage"> & Partial<Pick<LifecycleServices, "events">>,
  type: string,
  payload: Record<string, unknown> = {},
): void {
  events?.emit(type, payload);
  listeners.get(storage)?.({ type, ...payload });
}
