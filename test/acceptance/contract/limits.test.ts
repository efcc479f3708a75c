/**
 * Runs before all files with a virtual clock, see `vitest.config.ts`: the clock of limits never goes back, so after a test in the
 * future it stands still.
 */

import { describe } from "vitest";
import { HOSTS } from "../app/hosts.ts";
import { limitsContract } from "./limits.ts";
import { tenantsContract } from "./tenants.ts";

for (const host of HOSTS)
  describe(host.title, () => {
    limitsContract(host);
    tenantsContract(host);
  });
