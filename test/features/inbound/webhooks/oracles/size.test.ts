/** What a Worker loads: the receiver and one preset, minified and gzipped. Runs in Node, because it bundles. */

import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { minified } from "../../../../../bench/bundle.ts";

const SRC = path.join(import.meta.dirname, "../../../../../src");
const PRESETS = path.join(SRC, "features/inbound/webhooks/presets");
const LIMIT = 5_650;
/** Above the limit: three schemes, and the URLs that are signed with forms. A little more than what they have. */
const LIMITS: Readonly<Record<string, number>> = { custom: 5_830, twilio: 5_810 };

/** The exported functions of each preset, e.g. `github`. */
const presets = readdirSync(PRESETS).flatMap((file) => {
  const text = readFileSync(path.join(PRESETS, file), "utf8");
  const made = /^export function (\w+)\b.*?\): Endpoint\b/gms;
  const typed = /^export const (\w+): PresetOf</gm;
  return [made, typed]
    .flatMap((pattern) => [...text.matchAll(pattern)])
    .map(([, name = ""]) => ({ name, file }));
});

async function bundled(names: readonly string[]): Promise<string> {
  const code = await minified(
    `export { ${names.join(", ")} } from "./features/inbound/webhooks/index.ts";`,
    SRC,
    [],
  );
  return new TextDecoder().decode(code);
}

describe("a Worker with one preset", () => {
  it.each(presets)("loads at most its limit for $name", async ({ name }) => {
    const size = gzipSync(await bundled(["webhooks", name]), { level: 9 }).length;
    expect({ name, size }).toEqual({ name, size: Math.min(size, LIMITS[name] ?? LIMIT) });
  });

  it("loads no other preset, and not Zod", async () => {
    const headers = { stripe: "stripe-signature", github: "x-github-event", svix: "svix-" };
    for (const { name, file } of presets) {
      const code = await bundled(["webhooks", name]);
      for (const header of Object.values(headers)) {
        const own = readFileSync(path.join(PRESETS, file), "utf8");
        if (!own.includes(header))
          expect({ name, loads: code.includes(header) }).toEqual({ name, loads: false });
      }
      expect(code).not.toContain("ZodError");
    }
  });
});
