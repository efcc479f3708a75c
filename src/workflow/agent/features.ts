/** What an app installs beside the kernel: `static readonly features = [operations()]`. */

import { LifecycleCapability } from "agents/lifecycle";
import { invalidOption } from "../../core/options/options.ts";
import { storedVersion } from "../../engine/migrations.ts";

/** The features by name, in the order of their installation. */
const FEATURES = {
  agentTools: { entry: "perdure/agent-tools", steps: { "agent-tool": "step.agentTool()" } },
  codemode: {
    entry: "perdure/codemode",
    steps: { codemode: "runCode()" },
    calls: { rollbackCodemode: "runCode()" },
  },
  replies: { entry: "perdure/replies" },
  signedLinks: {
    entry: "perdure/inbound",
    value: 'signedLinks({ url: "https://...", secret: "LINK_SECRET" })',
    calls: { followLink: "A signed link" },
  },
  inbound: {
    entry: "perdure/inbound",
    steps: { webhook: "step.webhook()" },
    calls: { acceptArrival: "A receiver", countRefused: "countRefusals()" },
    module: "inbound",
    openWork: { perdure_inbound: "verdict = 'accepted' AND error IS NOT NULL" },
  },
  limits: { entry: "perdure/limits" },
  deployments: { entry: "perdure/deploy" },
  operations: { entry: "perdure/operator" },
  traces: { entry: "perdure/operator" },
  followers: { entry: "perdure/streams" },
  schedules: {
    entry: "perdure/scheduler",
    module: "scheduler",
    openWork: {
      perdure_tasks: "next_at IS NOT NULL AND paused_at IS NULL",
      perdure_runs: "ended_at IS NULL",
    },
  },
} as const satisfies Readonly<Record<string, Known>>;

/** What the kernel knows of a feature whose code may be no part of the Worker. */
type Known = {
  /** The entry that exports it. */
  readonly entry: string;
  /** The value to install, where the function takes more than nothing. */
  readonly value?: string;
  /** The steps of workflows that need it, by their kinds of waits. */
  readonly steps?: Readonly<Record<string, string>>;
  /** What needs it, by the calls of `callKernel()` that it adds. */
  readonly calls?: Readonly<Record<string, string>>;
  /** The name by which its tables are migrated. */
  readonly module?: string;
  /** Its tables, each with the condition of rows that are open work. */
  readonly openWork?: Readonly<Record<string, string>>;
};

export type FeatureName = keyof typeof FEATURES;

const ALL = Object.entries(FEATURES) as [FeatureName, Known][];

/** The kinds of waits that features install. */
export const STEP_KINDS = ALL.flatMap(([, { steps = {} }]) => Object.keys(steps));

type Installable<Kernel> = {
  readonly feature: FeatureName;
  readonly install: (kernel: Kernel) => unknown;
};

export class Features extends LifecycleCapability {
  readonly #installed = new Map<FeatureName, unknown>();

  /**
   * @param className for errors
   * @param hasOthers whether the app lists features, to which a line adds one: a preset may bring some that it does not list
   */
  constructor(
    private readonly className: string,
    private readonly hasOthers: boolean,
  ) {
    super("perdure.features");
  }

  /** @throws InvalidOptionError for what is not a list of different features */
  install<Kernel>(features: readonly Installable<Kernel>[], kernel: Kernel): void {
    const expected = "a list of different features, such as [operations()]";
    if (!Array.isArray(features)) throw invalidOption("features", features, expected);
    const placeOf = (feature: FeatureName | undefined) =>
      ALL.findIndex(([name]) => name === feature);
    // Not in the app's order: operations() sends alerts by kinds of destinations that others install.
    const ordered = [...(features as readonly (Installable<Kernel> | undefined)[])].sort(
      (one, other) => placeOf(one?.feature) - placeOf(other?.feature),
    );
    for (const one of ordered) {
      if (typeof one?.install !== "function" || this.#installed.has(one.feature))
        throw invalidOption("features", features, expected);
      this.#installed.set(one.feature, one.install(kernel));
    }
  }

  /** Logs stored work of features that the class does not install. No statement for those that have stored nothing. */
  override onStart(): void {
    const { storage } = this.lifecycle;
    for (const [feature, { module, openWork = {} }] of ALL) {
      if (!module || this.has(feature) || storedVersion(storage, module) === 0) continue;
      try {
        this.#logOpen(storage.sql, feature, openWork);
      } catch (error) {
        // A newer version may have changed the tables. The object, which does not use them, starts.
        console.warn(`[perdure] Stored work of ${feature}() cannot be read: ${error}`);
      }
    }
  }

  #logOpen(sql: SqlStorage, feature: FeatureName, openWork: Readonly<Record<string, string>>) {
    const open = Object.keys(openWork).filter((table) => {
      const query = `SELECT 1 FROM ${table} WHERE ${openWork[table]} LIMIT 1`;
      return sql.exec(query).toArray().length > 0;
    });
    if (open.length === 0) return;
    console.warn(
      `[perdure] Stored work in ${open.join(", ")} waits for ${feature}(). ${lineFor(feature, this.className, this.hasOthers)}`,
    );
  }

  has(feature: FeatureName): boolean {
    return this.#installed.has(feature);
  }

  /** @throws FeatureNotInstalledError */
  get(feature: FeatureName, usedBy: string): unknown {
    if (this.has(feature)) return this.#installed.get(feature);
    throw this.#missing(feature, usedBy);
  }

  /**
   * The error of a step's kind of wait, or of a call, that no feature has installed. Undefined for one that no feature has. Calls such
   * as `deployments.list` are found by what is before the dot.
   */
  missing(what: "steps" | "calls", name: string): FeatureNotInstalledError | undefined {
    for (const [feature, { [what]: names = {} }] of ALL) {
      const isOwn = name.startsWith(`${feature}.`);
      const usedBy = isOwn ? name : Object.hasOwn(names, name) && names[name];
      if (usedBy) return this.#missing(feature, usedBy);
    }
    return undefined;
  }

  #missing(feature: FeatureName, usedBy: string): FeatureNotInstalledError {
    return new FeatureNotInstalledError(feature, usedBy, this.className, this.hasOthers);
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
    hasOthers?: boolean,
  ) {
    super(`${usedBy} needs ${feature}(). ${lineFor(feature, className, hasOthers)}`);
  }
}

function lineFor(feature: FeatureName, className: string, hasOthers?: boolean): string {
  const { entry, value = `${feature}()` }: Known = FEATURES[feature];
  const list = `features = [${hasOthers ? "..., " : ""}${value}]`;
  return (
    `Add to the class ${className}: static override readonly ${list}. ` +
    `For a plain object, pass it to durable(). Import it from "${entry}".`
  );
}
