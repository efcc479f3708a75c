/** What a class gets that does not install inbound() or signedLinks(). */

import { describe, expect, it, onTestFinished, vi } from "vitest";
import { inbound, signedLinks } from "../../../src/features/inbound/index.ts";
import type { Durable } from "../../../src/hosts/object/index.ts";
import { capabilitiesOf } from "../../../src/hosts/public.ts";
import { operations } from "../../../src/operator/operations.ts";
import { refusal } from "../../support/given.ts";
import { jobsIn } from "../../support/jobs.ts";
import { inObject, plainObject } from "../../support/plain-object.ts";

const LINE = "static override readonly features = [inbound()]";
const ENTRY = 'Import it from "perdure/inbound".';
const ARRIVAL = {
  source: "github",
  id: "d1",
  type: "push",
  body: {},
  bytes: 2,
  hash: "0".repeat(64),
  receivedAt: 1,
};
const LINKS = { url: "https://app.example/hooks/links", secret: "HOOK_SECRET" };

const waitOf = (request: object) => ({
  kind: "webhook",
  idempotencyKey: "k",
  run: "r",
  workflow: { name: "SCRIPTED_WORKFLOW", id: "w", stepName: "callback" },
  request,
  timeoutMs: 1_000,
});

describe("without inbound()", () => {
  it.each([
    ["list", []],
    ["inspect", ["github", "d1"]],
    ["replay", ["github", "d1"]],
    ["replayMany", []],
  ] as const)("inbound.%s() throws an error with the line to add", async (verb, args) => {
    const error = await inObject((ctx, given) => {
      const { inbound: remote } = capabilitiesOf(plainObject(ctx, given, []).durable);
      return refusal((remote[verb] as (...args: unknown[]) => Promise<unknown>)(...args));
    });
    expect(error).toMatchObject({ name: "FeatureNotInstalledError", feature: "inbound" });
    expect(error.message).toContain("agent.inbound needs inbound(). ");
    expect(error.message).toContain(LINE);
  });

  it.each([
    ["acceptArrival", "A receiver"],
    ["countRefused", "countRefusals()"],
  ])("I1: the call %s throws an error with the line to add", async (call, usedBy) => {
    const error = await inObject((ctx, given) =>
      refusal(plainObject(ctx, given, []).durable.callKernel(call, { arrival: ARRIVAL })),
    );
    expect(error).toMatchObject({ name: "FeatureNotInstalledError", feature: "inbound" });
    expect(error.message).toContain(`${usedBy} needs inbound(). `);
    expect(error.message).toContain(LINE);
  });

  it("W1: step.webhook() is refused with the line to add, and stores nothing", async () => {
    const [error, stored] = await inObject(async (ctx, given) => {
      const { durable, lifecycle } = plainObject(ctx, given, []);
      await lifecycle.start();
      const asked = durable.callKernel("openWait", waitOf({ from: "github" }));
      return [await refusal(asked), jobsIn(ctx.storage.sql)];
    });
    expect(error).toMatchObject({ name: "FeatureNotInstalledError", feature: "inbound" });
    expect((error as Error).message).toContain(`step.webhook() needs inbound(). `);
    expect((error as Error).message).toContain(LINE);
    expect(stored).toEqual([]);
  });

  it("operators see no arrivals in the report, and a replay fails with the line to add", async () => {
    const [report, one, many] = await inObject(async (ctx, given) => {
      const { durable: agent } = plainObject(ctx, given, [operations()]);
      const act = (action: object) =>
        agent.operations
          .operate({ action, reason: "again", by: "sam" } as never)
          .catch((error) => error);
      return [
        await agent.operations.healthReport(),
        await act({ do: "replay", source: "github", id: "d1" }),
        await act({ do: "replay", filter: {} }),
      ] as const;
    });
    expect(report.findings).toEqual([]);
    expect(report.counts.inbound).toEqual({ accepted: 0, filtered: 0, refused: 0 });
    for (const result of [one, many]) {
      expect(result.outcome).toBe("failed");
      expect(JSON.stringify(result)).toContain("features = [..., inbound()]");
    }
  });

  it("I7: a start says once that unfinished arrivals wait, and keeps them", async () => {
    const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
    onTestFinished(() => warn.mockRestore());
    const rows = await inObject(async (ctx, given) => {
      const { durable } = plainObject(ctx, given, [inbound()]);
      const call = { ordinal: 1, verb: "approvals.list", args: [] };
      await durable.callKernel("acceptArrival", { arrival: ARRIVAL, call });
      await plainObject(ctx, given, []).lifecycle.start();
      return ctx.storage.sql.exec("SELECT id FROM perdure_inbound").toArray();
    });
    expect(rows).toEqual([{ id: "d1" }]);
    const lines = warn.mock.calls.map(String).filter((text) => text.includes("Stored work"));
    expect(lines).toEqual([
      expect.stringContaining("Stored work in perdure_inbound waits for inbound()"),
    ]);
    expect(lines[0]).toContain(LINE);
  });
});

describe("without signedLinks()", () => {
  it.each([
    ["the class", (agent: Durable) => agent.approvals],
    ["a caller", (agent: Durable) => capabilitiesOf(agent).approvals],
  ])("approvals.link() rejects in %s with the line to add", async (_, approvalsOf) => {
    const error = await inObject((ctx, given) => {
      const { durable } = plainObject(ctx, given, [inbound()]);
      return refusal(approvalsOf(durable).link("a", "grant"));
    });
    expect(error).toMatchObject({ name: "FeatureNotInstalledError", feature: "signedLinks" });
    expect(error.message).toContain("approvals.link() needs signedLinks(). ");
    expect(error.message).toContain(ENTRY);
  });

  it("W3: the call of a link throws an error with the line to add", async () => {
    const error = await inObject((ctx, given) => {
      const { durable } = plainObject(ctx, given, [inbound()]);
      return refusal(durable.callKernel("followLink", [], { do: "inspect", approvalId: "a" }));
    });
    expect(error).toMatchObject({ name: "FeatureNotInstalledError", feature: "signedLinks" });
    expect(error.message).toContain("A signed link needs signedLinks(). ");
    expect(error.message).toContain(ENTRY);
  });

  it("W1: a step with a URL is refused with the line to add, and stores nothing", async () => {
    const [error, stored] = await inObject(async (ctx, given) => {
      const { durable, lifecycle } = plainObject(ctx, given, [inbound()]);
      await lifecycle.start();
      const asked = durable.callKernel("openWait", waitOf({ url: true }));
      return [await refusal(asked), jobsIn(ctx.storage.sql)];
    });
    expect(error).toMatchObject({ name: "FeatureNotInstalledError", feature: "signedLinks" });
    expect((error as Error).message).toContain("step.webhook({ url: true }) needs signedLinks(). ");
    expect(stored).toEqual([]);
  });
});

describe("signedLinks() without inbound()", () => {
  it("W3: signs links of approvals, and says that a URL of a step needs inbound()", async () => {
    const [link, error] = await inObject(async (ctx, given) => {
      const { durable } = plainObject(ctx, given, [signedLinks(LINKS)]);
      const receive = { do: "receive", topic: "t", hash: "h", body: 1, receivedAt: 1 } as const;
      return [
        await refusal(durable.approvals.link("unknown", "grant")),
        await refusal(durable.callKernel("followLink", [], receive)),
      ];
    });
    expect(link).toMatchObject({ name: "InvalidApprovalError", field: "approvalId" });
    expect(error).toMatchObject({ name: "FeatureNotInstalledError", feature: "inbound" });
  });

  it.each([
    [{ url: "https://app.example/hooks/links" }, /Missing option "secret"/],
    [{ ...LINKS, url: "app.example" }, /Invalid url "app.example": expected a URL/],
    [{ ...LINKS, until: 1 }, /Unknown option "until" in options of signedLinks\(\)/],
    [undefined, /Invalid options of signedLinks\(\)/],
  ])("refuses %o", (settings, message) => {
    expect(() => signedLinks(settings as never)).toThrow(message);
  });

  it.each([
    [{ maxInFlight: 0 }, /Invalid maxInFlight 0/],
    [{ keep: 1 }, /Unknown option "keep"/],
  ])("inbound() refuses %o", (settings, message) => {
    expect(() => inbound(settings as never)).toThrow(message);
  });
});
