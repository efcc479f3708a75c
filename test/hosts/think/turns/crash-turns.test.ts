/** An agent dies at any write or delivery of what its callers ask for: see `matrix/think-turns.ts`, `matrix/think-tools.ts`. */

import { playMatrix } from "../../../support/crash-think.ts";
import { TOOLS } from "./crash-tools.test.ts";
import { TURNS } from "./crash-turns-scenarios.ts";

playMatrix([...TOOLS, ...TURNS]);
