import type { Gate } from "./gate.ts";
import type { Admissions } from "./turns/admission.ts";

/** The parts that the feature `limits()` has installed, if any. */
export type Limiter = {
  gate?: Gate;
  /** Asks the gate before turns start. */
  admissions?: Admissions;
  /** @throws FeatureNotInstalledError naming the option that needs the gate */
  needGate(usedBy: string): Gate;
};
