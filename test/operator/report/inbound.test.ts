/** What the report finds wrong with arrivals. */

import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { receiverSecrets } from "../../../src/features/inbound/offer.ts";
import { custom, webhooks } from "../../../src/features/inbound/webhooks/index.ts";
import { message, until } from "../../support/given.ts";
import { arrival, call } from "../../support/inbound.ts";
import { codesIn, found, givenAgent, gone, HOUR, inside, MINUTE, reportOf } from "./support.ts";

const hello = () => [[message("hi")]];

describe("findings of arrivals", () => {
  it("inbound-refused: arrivals that were refused are one finding for each source and error", async () => {
    const agent = givenAgent();
    for (const id of ["d1", "d2"])
      await agent.callKernel("acceptArrival", call(arrival(id), "notThere"));
    const finding = await found(agent, "inbound-refused");
    expect(finding.title).toMatch(
      /^2 arrivals of github were refused since \d\d:\d\d UTC with InvalidCallError\.$/,
    );
    expect(finding.evidence).toMatchObject({ count: 2, ids: ["github/d2", "github/d1"] });
    expect(finding.fix.action).toEqual({
      do: "replay",
      filter: {
        source: "github",
        verdict: "refused",
        cause: expect.stringContaining("InvalidCallError: "),
        since: finding.evidence.since,
        until: expect.any(Number),
      },
    });
    const report = await reportOf(agent);
    expect(report.verdicts.starts).toBe(false);
    expect(report.counts.inbound).toEqual({ accepted: 0, filtered: 0, refused: 2 });
    for (const id of ["d1", "d2"]) {
      // Their sender sends them again, to a handler that was corrected.
      expect(
        await agent.callKernel("acceptArrival", call(arrival(id), "submitMessages", hello())),
      ).toMatchObject({ verdict: "accepted" });
    }
    await gone(agent, "inbound-refused");
  });

  it("inbound-unfinished: an arrival whose handler has stopped between two calls is found", async () => {
    const agent = givenAgent();
    const first = arrival("d1");
    await agent.callKernel("acceptArrival", call(first, "submitMessages", hello()));
    await agent.callKernel("acceptArrival", call(first, "submitMessages", hello(), 1));
    expect(codesIn(await reportOf(agent))).toEqual([]);
    const later = { later: 2 * MINUTE };
    const finding = await found(agent, "inbound-unfinished", later);
    expect(finding.evidence).toMatchObject({ count: 1, ids: ["github/d1"] });
    expect(finding.fix.action).toEqual({ do: "replay", source: "github", id: "d1" });
    await agent.callKernel("acceptArrival", { arrival: first, ended: true });
    await gone(agent, "inbound-unfinished", later);
  });

  it("inbound-held: arrivals of unknown senders are found until they are replayed", async () => {
    const agent = givenAgent();
    const held = "UnauthenticatedError: it has no results of the server mx";
    for (const id of ["d1", "d2"])
      await agent.callKernel("acceptArrival", { arrival: arrival(id), held });
    const finding = await found(agent, "inbound-held");
    expect(finding.title).toMatch(
      /^2 arrivals of github are held since \d\d:\d\d UTC: nothing shows who sent them\.$/,
    );
    expect(finding).toMatchObject({
      severity: "error",
      evidence: { count: 2, ids: ["github/d2", "github/d1"] },
      fix: { action: { do: "replay", filter: { source: "github", verdict: "held" } } },
    });
    const report = await reportOf(agent);
    expect(codesIn(report)).toEqual(["inbound-held"]);
    expect(report.counts.inbound).toEqual({ accepted: 0, filtered: 0, refused: 0, held: 2 });
    for (const id of ["d1", "d2"])
      await agent.callKernel("acceptArrival", call(arrival(id), "submitMessages", hello()));
    await gone(agent, "inbound-held");
  });

  it("inbound-secret-missing: a receiver of this Worker without its secret is found", async () => {
    const agent = givenAgent();
    const receiver = (name: string, secret: string | string[]) =>
      webhooks(custom({ name, secret, scheme: "token", header: "x-token", agent: () => null }));
    receiver("shut", ["SHUT_NEW", "SHUT_OLD"]);
    receiver("open", ["SHUT_NEW", "HOOK_SECRET"]);
    const request = new Request("https://x.example/hooks/shut", {
      method: "POST",
      body: "{}",
      headers: { "content-type": "application/json", "x-token": "a" },
    });
    const hooks = receiver("shut", ["SHUT_NEW", "SHUT_OLD"]);
    vi.spyOn(console, "warn").mockImplementation(() => {});
    expect((await hooks(request, env, createExecutionContext()))?.status).toBe(503);
    const finding = await found(agent, "inbound-secret-missing");
    expect(finding).toMatchObject({
      about: "shut",
      severity: "error",
      title:
        "The endpoint shut answers 503 to each request: this Worker has no secret SHUT_NEW, SHUT_OLD.",
      fix: { text: expect.stringContaining("wrangler secret put SHUT_NEW") },
    });
    expect(codesIn(await reportOf(agent))).toEqual(["inbound-secret-missing"]);
    receiverSecrets.clear();
    await gone(agent, "inbound-secret-missing");
  });

  it("inbound-poison: one that fails while later ones of its source succeed is found apart", async () => {
    const agent = givenAgent();
    await agent.callKernel("acceptArrival", call(arrival("bad"), "notThere"));
    for (const id of ["d1", "d2", "d3"])
      await agent.callKernel("acceptArrival", call(arrival(id), "submitMessages", hello()));
    const finding = await found(agent, "inbound-poison");
    expect(finding.title).toContain("while 3 later ones were accepted");
    expect(finding.fix.action).toEqual({ do: "replay", source: "github", id: "bad" });
    await until(async () => (await agent.submissionStats()).pending === 0);
    expect(codesIn(await reportOf(agent))).toEqual(["inbound-poison"]);
    await agent.callKernel("acceptArrival", call(arrival("bad"), "submitMessages", hello()));
    await gone(agent, "inbound-poison");
  });

  it("inbound-duplicates: an arrival that its sender sends again and again is found", async () => {
    const agent = givenAgent();
    await agent.callKernel("acceptArrival", call(arrival("d1"), "clearMessages"));
    const again = (count: number) =>
      inside(agent, async (object) => {
        for (let i = 0; i < count; i++)
          await object.callKernel("acceptArrival", call(arrival("d1"), "clearMessages"));
      });
    await again(50);
    expect(codesIn(await reportOf(agent, { later: 24 * HOUR }))).toEqual([]);
    const finding = await found(agent, "inbound-duplicates");
    expect(finding).toMatchObject({
      severity: "warning",
      title: expect.stringMatching(
        /^1 arrival of github was sent again 50 times since \d\d:\d\d UTC\.$/,
      ),
      evidence: { count: 50, ids: ["github/d1"] },
      link: { view: "inbound", id: "github/d1" },
    });
    // Others do not hide it.
    await inside(agent, async (object) => {
      for (let i = 2; i < 9; i++)
        await object.callKernel("acceptArrival", { arrival: arrival(`d${i}`) });
    });
    expect(codesIn(await reportOf(agent))).toEqual([]);
    await again(50);
    expect((await found(agent, "inbound-duplicates")).title).toContain("8 arrivals of github");
  });

  it("inbound-duplicates: one id with different bodies has its own cause", async () => {
    const agent = givenAgent();
    await agent.callKernel("acceptArrival", call(arrival("d1"), "clearMessages"));
    await inside(agent, async (object) => {
      for (let n = 0; n < 100; n++)
        await object.callKernel("acceptArrival", { arrival: arrival("d1", { body: { n } }) });
    });
    expect((await found(agent, "inbound-duplicates")).cause).toContain("different bodies");
  });

  it("inbound-duplicates: a sender that repeats each arrival twice is healthy", async () => {
    const agent = givenAgent();
    await inside(agent, async (object) => {
      for (let i = 0; i < 150; i++)
        await object.callKernel("acceptArrival", { arrival: arrival(`d${i % 50}`) });
    });
    expect(codesIn(await reportOf(agent))).toEqual([]);
  });

  it.each([
    ["signature", "The secret of this Worker is not the sender's"],
    ["clock", "The sender's clock is wrong"],
  ] as const)(
    "inbound-requests-refused: requests that were refused by their %s are found for a day",
    async (reason, cause) => {
      const agent = givenAgent();
      const refuse = (count: number) =>
        agent.callKernel("countRefused", { source: "github", reason, count });
      await refuse(4);
      expect(codesIn(await reportOf(agent))).toEqual([]);
      await refuse(2);
      const finding = await found(agent, "inbound-requests-refused");
      expect(finding.title).toMatch(/^6 requests to the endpoint github were refused by their /);
      expect(finding).toMatchObject({ severity: "warning", evidence: { count: 6, ids: [] } });
      expect(finding.cause).toContain(cause);
      expect((await reportOf(agent)).counts.inbound.refused).toBe(0);
      await gone(agent, "inbound-requests-refused", { later: 25 * HOUR });
    },
  );

  it("makes no table where no arrival has come", async () => {
    const agent = givenAgent();
    expect((await reportOf(agent)).counts.inbound).toEqual({
      accepted: 0,
      filtered: 0,
      refused: 0,
    });
  });
});
