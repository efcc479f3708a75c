/**
 * Each object crashes at every write and delivery of each verb. `VITE_PERDURE_CRASH_STRIDE=1` plays all points, otherwise a
 * sample.
 */

import { crashAtEveryWrite } from "perdure/testing";
import { describe, expect, it } from "vitest";
import { HOSTS } from "../app/hosts.ts";
import { readSize } from "../sizes.ts";
import { makeScenarios } from "./scenarios.ts";

/** A full run takes an hour. */
const TIMEOUT_MS = 3_600_000;

for (const host of HOSTS.filter(({ depth }) => depth === 0)) {
  describe.concurrent(`${host.title} after a crash at any write`, () => {
    for (const [index, { name, scenario, sampleStride }] of makeScenarios(host).entries()) {
      const stride = readSize("CRASH_STRIDE", sampleStride);
      it(
        name,
        async () => {
          const moments = ["soon after", "before", "after"] as const;
          const first = stride === 1 ? 0 : index % moments.length;
          const report = await crashAtEveryWrite({
            ...scenario,
            moments: [...moments.slice(first), ...moments.slice(0, first)],
            stride,
            concurrency: 4,
          });
          console.log(String(report));
          expect(report.wrong, String(report)).toEqual([]);
        },
        TIMEOUT_MS,
      );
    }
  });
}
