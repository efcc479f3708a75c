#!/usr/bin/env node
/** `npx perdure`. */

import { EXIT } from "./context.ts";
import { completeNode20 } from "./node20.ts";
import { runCommand } from "./program.ts";

completeNode20();

/** A reader that has enough closes the pipe, e.g. `| head`. */
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  process.exit(error.code === "EPIPE" ? EXIT.ok : EXIT.found);
});

await runCommand();
