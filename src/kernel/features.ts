/** What an app installs beside the kernel: `static readonly features = [operations()]`. */

import { invalidOption } from "../core/options/options.ts";
import type { Kernel } from "./kernel.ts";

/** The features by name, with the entry that exports each, in the order of their installation. */
const ENTRIES = {
  replies: "perdure/replies",
  operations: "perdure/operator",
  followers: "perdure/streams",
} as const;

export type FeatureName = keyof typeof ENTRIES;

/** A value that an app installs. Code of a feature that no class names is not part of the Worker. */
export type Feature<Name extends FeatureName = FeatureName, Installed = unknown> = {
  readonly feature: Name;
  /**
   * Called once for each object, in its constructor. What it adds, such as a kind of wait, is there at the start.
   * @internal
   */
  readonly install: (kernel: Kernel) => Installed;
};

export class Features {
  readonly #installed = new Map<FeatureName, unknown>();

  /** @param className for errors */
  constructor(private readonly className: string) {}

  /** @throws InvalidOptionError for what is not a list of different features */
  install(features: readonly Feature[], kernel: Kernel): void {
    const expected = "a list of different features, such as [operations()]";
    if (!Array.isArray(features)) throw invalidOption("features", features, expected);
    const order = Object.keys(ENTRIES);
    const placeOf = (feature: FeatureName | undefined) => order.indexOf(feature ?? "");
    // Not in the app's order: operations() sends alerts by kinds of destinations that others install.
    const ordered = [...(features as readonly (Feature | undefined)[])].sort(
      (one, other) => placeOf(one?.feature) - placeOf(other?.feature),
    );
    for (const one of ordered) {
      if (typeof one?.install !== "function" || this.#installed.has(one.feature))
        throw invalidOption("features", features, expected);
      this.#installed.set(one.feature, one.install(kernel));
    }
  }

  has(feature: FeatureName): boolean {
    return this.#installed.has(feature);
  }

  /** @throws FeatureNotInstalledError */
  get(feature: FeatureName, usedBy: string): unknown {
    if (this.has(feature)) return this.#installed.get(feature);
    throw new FeatureNotInstalledError(feature, usedBy, this.className);
  }
}

/** The call or the option needs a feature that the agent's class does not install. Nothing was stored. */
export class FeatureNotInstalledError extends Error {
  override readonly name = "FeatureNotInstalledError";
  constructor(
    readonly feature: FeatureName,
    /** The method or the option. */
    readonly usedBy: string,
    className: string,
  ) {
    super(
      `${usedBy} needs ${feature}(). Add to the class ${className}: static readonly features = [${feature}()]. ` +
        `For a plain object, add to the options of durable(): features: [${feature}()]. Import it from ${JSON.stringify(ENTRIES[feature])}.`,
    );
  }
}
