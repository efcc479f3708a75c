/** What the report finds of deploys, by facts alone. */

import { describe, expect, it } from "vitest";
import { DEPLOY_RULES, type LostRun } from "../../../src/features/deploy/operated/rules.ts";

const NOW = Date.parse("2026-11-26T12:00:00Z");
const HOUR = 3_600_000;

type DeployFacts = Parameters<(typeof DEPLOY_RULES)[number]>[0];

const found = (facts: Partial<DeployFacts>) =>
  DEPLOY_RULES.flatMap((rule) => rule({ lost: [], interrupted: [], deploys: [], ...facts }, NOW));

const lost = (workflowId: string, version: LostRun["version"] = "6"): LostRun => ({
  ...{ workflow: "TICKETS", workflowId, version },
  ...{ endedAt: NOW - HOUR, error: 'The run began with the version "6"' },
});

describe("the report of deploys", () => {
  it("has no finding without work that a deploy has hurt", () => {
    expect(found({ deploys: [NOW - HOUR] })).toEqual([]);
  });

  it("version-gone: runs whose version is gone are found by Workflow and version, with a restart", () => {
    const findings = found({ lost: [lost("a"), lost("b"), lost("c", null)] });
    expect(findings).toMatchObject([
      {
        ...{ code: "version-gone", about: "TICKETS 6", severity: "error" },
        title:
          "2 runs of TICKETS ended since 11:00 UTC, because the code does not have their version 6.",
        evidence: { count: 2, ids: ["a", "b"], lastError: expect.stringContaining("version") },
        // From the beginning, where a run begins with the newest version.
        fix: {
          action: {
            do: "restart-workflow",
            filter: { status: ["errored"], id: ["a", "b"] },
            step: "start",
          },
        },
      },
      {
        about: "TICKETS",
        title:
          "1 run of TICKETS ended since 11:00 UTC, because the code does not have its version.",
        fix: { action: { do: "restart-workflow", workflowId: "c" } },
      },
    ]);
  });

  it("shows no more than ten ids and 500 characters of an error", () => {
    const runs = Array.from({ length: 30 }, (_, n) => ({
      ...lost(`${n}`),
      error: "x".repeat(900),
    }));
    const [finding] = found({ lost: runs });
    expect(finding?.evidence.count).toBe(30);
    expect(finding?.evidence.ids).toHaveLength(10);
    expect(finding?.evidence.lastError).toHaveLength(500);
  });

  const DEPLOYS = [4, 3, 2, 1].map((hours) => NOW - hours * HOUR);
  /** An attempt that began a minute before a deploy, and was found interrupted after it. */
  const across = (deploy = 0) => [deploy - 60_000, deploy + 2_000] as const;

  it("deploys-interrupt: open submissions that deploys have interrupted more than twice are found", () => {
    const [finding, ...others] = found({
      deploys: DEPLOYS,
      interrupted: [
        { id: "often", interrupted: DEPLOYS.map(across) },
        { id: "twice", interrupted: DEPLOYS.slice(0, 2).map(across) },
      ],
    });
    expect(others).toEqual([]);
    expect(finding).toMatchObject({
      ...{ code: "deploys-interrupt", severity: "warning" },
      title: "Deploys have interrupted 1 open submission up to 4 times since 07:59 UTC.",
      evidence: { count: 1, ids: ["often"] },
      fix: { text: expect.stringContaining("code_update_strategy") },
    });
  });

  it("does not count attempts that a crash without a deploy has interrupted", () => {
    const interrupted = DEPLOYS.map((deploy) => across(deploy + 600_000));
    expect(found({ deploys: DEPLOYS, interrupted: [{ id: "crashed", interrupted }] })).toEqual([]);
  });
});
