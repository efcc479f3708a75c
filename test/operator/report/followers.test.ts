/** What the report finds wrong with followers. */

import { expect, it } from "vitest";
import type { Followers } from "../../../src/features/streams/followers.ts";
import { CAPABILITIES } from "../../../src/hosts/verbs.ts";
import { codesIn, found, givenAgent, HOUR, inside, reportOf } from "./support.ts";

it("followers-refused: refused followers are counted for an hour", async () => {
  const agent = givenAgent();
  const refuse = () =>
    inside(agent, async (object) => {
      const features = object[CAPABILITIES].features;
      const followers = features.get("followers", "a test") as Followers;
      Object.assign(followers, { most: 0 });
      const refused = await object.followThread("main").catch((error: Error) => error.name);
      expect(refused).toBe("TooManyFollowersError");
    });
  expect(codesIn(await reportOf(agent))).toEqual([]);
  for (let i = 0; i < 3; i++) await refuse();
  const finding = await found(agent, "followers-refused");
  expect(finding).toMatchObject({ severity: "warning", evidence: { count: 3 } });
  expect(codesIn(await reportOf(agent, { later: 2 * HOUR }))).not.toContain("followers-refused");
});
