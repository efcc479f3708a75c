/** An agent dies at any write or delivery of the prompts of its workflows: see `matrix/think-prompts.ts`. */

import { playMatrix } from "../../support/crash-think.ts";
import { PROMPTS } from "./crash-prompts-scenarios.ts";

playMatrix(PROMPTS);
