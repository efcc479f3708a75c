/** The turn that the caller runs in. Code that a turn leaves running after its end is outside of it. */

import { AsyncLocalStorage } from "node:async_hooks";

type Scope = { readonly submissionId: string; isOver: boolean };

export class TurnScope {
  readonly #scope = new AsyncLocalStorage<Scope>();

  async run<T>({ submissionId }: Pick<Scope, "submissionId">, work: () => Promise<T>): Promise<T> {
    const scope = { submissionId, isOver: false };
    try {
      return await this.#scope.run(scope, work);
    } finally {
      scope.isOver = true;
    }
  }

  /** The turn's submission; undefined outside of a turn. */
  get submissionId(): string | undefined {
    const scope = this.#scope.getStore();
    return scope?.isOver === false ? scope.submissionId : undefined;
  }
}
