/** The memory of an object with pending submissions, and after their ends, above its idle memory. */

import { Inspector } from "../inspector.ts";
import type { Measure } from "../measure.ts";
import { atMost, type Result } from "../result.ts";

const COUNT = 10_000;
/** The size of one message. If messages were held in memory, they alone would need twice the limit. */
const BYTES = 6_400;
const MEBIBYTE = 1024 * 1024;
const MAX_PENDING_MIB = 32;
const MAX_ENDED_MIB = 8;

export const memory: Measure = {
  name: "memory",
  does: `weighs the JavaScript heap with ${COUNT.toLocaleString("en")} waiting submissions, and after their ends`,
  hasCounts: false,
  async run({ start }) {
    const { ask, inspectorUrl } = await start("memory");
    const name = "weighed";
    await ask("hold", { name, count: 0, bytes: 0 });
    const inspector = await Inspector.connect(inspectorUrl);
    try {
      const idle = await inspector.heapUsed();
      const open = await ask("hold", { name, count: COUNT, bytes: BYTES });
      if (open !== COUNT) throw new Error(`${open} submissions wait, not ${COUNT}`);
      const held = (await inspector.heapUsed()) - idle;
      await ask("drain", { name });
      const left = (await inspector.heapUsed()) - idle;
      return [
        result(`with ${COUNT.toLocaleString("en")} waiting`, held, MAX_PENDING_MIB),
        result("after their ends", left, MAX_ENDED_MIB),
      ];
    } finally {
      inspector.close();
    }
  },
};

function result(when: string, bytes: number, most: number): Result {
  return {
    what: `heap of the object above idle, ${when}`,
    unit: "MiB",
    perdure: bytes / MEBIBYTE,
    limit: atMost(most),
  };
}
