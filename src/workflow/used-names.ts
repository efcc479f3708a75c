/**
 * The names and keys that a run of a workflow has used so far. Each stands for one step, so that no answer is taken for
 * another's (W3). In memory: a replay uses the same names again. To be called before anything is awaited, so that steps
 * that start together are told apart in the order of the calls.
 */

import { preview } from "../core/json.ts";
import { invalidStep } from "./step-call.ts";

export class UsedNames {
  readonly #used = new Set<string>();

  /**
   * Notes a use of a step.
   *
   * @param kind the method of the step, e.g. `"prompt"`
   * @param keys the keys of its items, of a step that has many
   * @throws NonRetryableError where this run has used the name and key before, also for the same request
   */
  use(kind: string, name: string, key: string | undefined, keys?: readonly string[]): void {
    const id = JSON.stringify([kind, name, keys ?? key]);
    if (!this.#used.has(id)) {
      this.#used.add(id);
      return;
    }
    const withKey = keys ? " with the same keys of items" : key && ` with the key ${preview(key)}`;
    const remedy = keys
      ? "give the items other keys, or the step another name"
      : "in a loop, pass a different `key` each time";
    throw invalidStep(
      kind,
      name,
      `was used before in this run of the workflow${withKey ?? ""}. Step names must be unique within a run: ${remedy}.`,
    );
  }
}
