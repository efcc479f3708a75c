/** What an app installs beside the modules of every agent: `static readonly features = [operations()]`. */

import { invalidOption } from "../core/options/options.ts";
import type { OperatedAgent } from "../operator/operated.ts";
import type { Operations } from "../operator/operations.ts";

/** By its name, what a feature adds to an agent. */
type Installed = { readonly operations: Operations };

/** A value that an app installs. Code of a feature that no class names is not part of the Worker. */
export type Feature<Name extends keyof Installed = keyof Installed> = {
  readonly feature: Name;
  /** @internal */
  readonly install: (agent: () => OperatedAgent) => Installed[Name];
};

export class Features {
  readonly #made = new Map<string, unknown>();

  /**
   * @param className for errors
   * @throws InvalidOptionError for what is not a list of different features
   */
  constructor(
    features: readonly Feature[],
    agent: () => OperatedAgent,
    private readonly className: string,
  ) {
    const expected = "a list of different features, such as [operations()]";
    if (!Array.isArray(features)) throw invalidOption("features", features, expected);
    for (const one of features as (Feature | undefined)[]) {
      if (typeof one?.install !== "function" || this.#made.has(one.feature))
        throw invalidOption("features", features, expected);
      this.#made.set(one.feature, one.install(agent));
    }
  }

  /** Undefined if the class does not install it. */
  find<Name extends keyof Installed>(feature: Name): Installed[Name] | undefined {
    return this.#made.get(feature) as Installed[Name] | undefined;
  }

  /** @throws FeatureNotInstalledError */
  get<Name extends keyof Installed>(feature: Name, usedBy: string): Installed[Name] {
    const made = this.find(feature);
    if (!made) throw new FeatureNotInstalledError(feature, usedBy, this.className);
    return made;
  }
}

/** The call or the option needs a feature that the agent's class does not install. Nothing was stored. */
export class FeatureNotInstalledError extends Error {
  override readonly name = "FeatureNotInstalledError";
  constructor(
    readonly feature: string,
    /** The method or the option. */
    readonly usedBy: string,
    className: string,
  ) {
    super(
      `${usedBy} needs ${feature}(). Add to the class ${className}: static readonly features = [${feature}()]. ` +
        `For a plain object, add to the options of durable(): features: [${feature}()]. Import it from "perdure/operator".`,
    );
  }
}
