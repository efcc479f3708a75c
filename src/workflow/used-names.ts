/**
 * What a run of a workflow has asked for so far, by name and key: one of them
 * stands for one thing, so that no answer is taken for another's (W3). In
 * memory, because a replay asks for the same things again, in the same order.
 */

import { shown } from "../core/json.ts";
import { invalidStep } from "./step-call.ts";

export class UsedNames {
  readonly #asked = new Map<string, string>();

  /**
   * Notes a use of a step.
   *
   * @param step the step's method and name, its key, if it has one, and what it is known by, where that is not the key
   * @param asked what it asks, where the same thing may be asked again and is answered as before
   * @throws NonRetryableError where this run has asked for something else by that name and key
   */
  use(
    step: { kind: string; name: string; key: string | undefined; id?: string },
    asked?: string,
  ): void {
    const { kind, name, key } = step;
    const id = JSON.stringify([kind, name, step.id ?? key]);
    const before = this.#asked.get(id);
    if (before === undefined) {
      this.#asked.set(id, asked ?? "");
      return;
    }
    if (asked !== undefined && before === asked) return;
    const what = key === undefined ? "this name" : `this name and the key ${shown(key)}`;
    throw invalidStep(
      kind,
      name,
      `was asked for before in this run of the workflow, by ${what}. Give each use of a name a key of its own.`,
    );
  }
}
