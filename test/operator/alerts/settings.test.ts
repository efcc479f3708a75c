/** Settings of alerts and traces that cannot work: the agent works without them, and its report names the remedy. */

import { evictDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it } from "vitest";
import { replies, slack } from "../../../src/features/replies/index.ts";
import { capabilitiesOf } from "../../../src/hosts/public.ts";
import type { AlertOptions } from "../../../src/operator/alerts/options.ts";
import { operations, traces } from "../../../src/operator/index.ts";
import type { TracesOptions } from "../../../src/operator/otlp/collector.ts";
import { webhook } from "../../../src/outbox/index.ts";
import { wakeAll } from "../../support/crash/objects.ts";
import { message, until } from "../../support/given.ts";
import { ALERTS, installed } from "./alerts-agent.ts";
import { added, declared } from "./alerts-object.ts";

type Settings = { readonly alerts?: AlertOptions; readonly to?: TracesOptions };

const HOSTS = {
  "an agent": ({ alerts, to }: Settings) => {
    installed.features = [operations(alerts && { alerts }), replies(), ...(to ? [traces(to)] : [])];
    return env.AlertsAgent.getByName(`settings-${crypto.randomUUID()}`);
  },
  "a plain object": ({ alerts, to }: Settings) => {
    const name = `settings-${crypto.randomUUID()}`;
    declared.set(name, alerts ?? null);
    added.set(name, to ? [traces(to)] : []);
    return env.AlertsObject.getByName(name);
  },
};

afterEach(() => {
  installed.features = ALERTS;
});

const CASES: [string, Settings, code: string, names: RegExp][] = [
  [
    "alerts to Slack without their secret",
    { alerts: { to: slack("C0123456789", { token: "TEAM_SLACK" }) } },
    "alerts-not-sent",
    /wrangler secret put TEAM_SLACK\b/,
  ],
  [
    "alerts to a webhook without their secret",
    { alerts: { to: webhook("https://x.example", { secret: "TEAM_HOOK" }) } },
    "alerts-not-sent",
    /wrangler secret put TEAM_HOOK\b/,
  ],
  [
    "alerts to a bad destination",
    { alerts: { to: webhook("ftp://x.example", { secret: "HOOK_SECRET" }) } },
    "alerts-not-sent",
    /Invalid alerts\.to\.url .*ftp:/,
  ],
  [
    "traces without their secret",
    { to: { url: "https://otlp.example", headers: "TEAM_OTLP" } },
    "secret-missing",
    /wrangler secret put TEAM_OTLP\b/,
  ],
];

describe.each(Object.entries(HOSTS))("%s", (_, given) => {
  it.each(CASES)("starts, works and restarts with %s", async (_, settings, code, names) => {
    const stub = given(settings);
    for (const life of ["first", "second"]) {
      const { submissionId } = await stub.submitMessages([message(life)]);
      expect(await stub.waitForSubmission(submissionId)).toMatchObject({ status: "completed" });
      await until(async () => {
        await wakeAll(stub);
        const { findings } = await capabilitiesOf(stub).operations.healthReport();
        return findings.find((one) => one.code === code && names.test(JSON.stringify(one)));
      });
      await evictDurableObject(stub as never);
    }
  });
});
