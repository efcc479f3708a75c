/** Starts the worker of a bench until its script ends. */

import path from "node:path";
import { unstable_startWorker } from "wrangler";

export type StartedWorker = Awaited<ReturnType<typeof unstable_startWorker>>;

/** @param folder the bench's, with its wrangler.jsonc */
export function startWorker(folder: string): Promise<StartedWorker> {
  return unstable_startWorker({
    config: path.join(folder, "wrangler.jsonc"),
    dev: {
      persist: false,
      server: { hostname: "127.0.0.1", port: 0 },
      inspector: { hostname: "127.0.0.1", port: 0 },
      logLevel: "error",
    },
  });
}
