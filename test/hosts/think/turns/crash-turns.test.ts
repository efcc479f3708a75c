/** An agent dies at any write or delivery of what its callers ask for: see `matrix/think-turns.ts`, `matrix/think-tools.ts`. */

import { TOOLS } from "../../../matrix/think-tools.ts";
import { TURNS } from "../../../matrix/think-turns.ts";
import { playMatrix } from "../../../support/think-matrix.ts";

playMatrix([...TOOLS, ...TURNS]);
