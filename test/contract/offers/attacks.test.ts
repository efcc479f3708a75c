/** Options that fail and inputs that are too large, on a plain Durable Object. */

import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { message, refusal, until } from "../../support/given.ts";
import type { Failing } from "../hosts/attacked-object.ts";

const given = (failing: Failing) =>
  env.AttackedObject.getByName(`${failing}-${crypto.randomUUID()}`);

async function ended(failing: Failing) {
  const object = given(failing);
  const { submissionId } = await object.submitMessages([message("Hello")], {
    retry: { maxAttempts: 1 },
  });
  return until(async () => {
    const found = await object.inspectSubmission(submissionId);
    return found !== null && found.status !== "pending" && found.status !== "running" && found;
  });
}

it("a model function that throws ends the turn with its error", async () => {
  const found = await ended("model-throws");
  expect(found.status).toBe("error");
  expect(JSON.stringify(found)).toContain("no key for the model");
});

it("a model function that returns no model ends the turn with an error", async () => {
  expect((await ended("model-garbage")).status).toBe("error");
});

it("a beforeTurn() that throws ends the turn with its error", async () => {
  const found = await ended("before-turn-throws");
  expect(found.status).toBe("error");
  expect(JSON.stringify(found)).toContain("no turns today");
});

it("tools() that never returns ends the turn after stallTimeout", async () => {
  expect((await ended("tools-hang")).status).toBe("error");
});

it("a message of 10 MB is refused and stores nothing", async () => {
  const object = given("none");
  const call = object.submitMessages([message("x".repeat(10_000_000))]);
  expect((await refusal(call)).message).toMatch(/limit|at most|too large/i);
  expect(await object.listSubmissions()).toEqual([]);
});

it("options of a wrong type are refused and store nothing", async () => {
  const object = given("none");
  const hostile: unknown[] = [{ retires: 3 }, { idempotencyKey: 7 }, { thread: {} }, "text", 3];
  for (const options of hostile) {
    const error = await refusal(object.submitMessages([message("Hello")], options as never));
    expect(error.message).toMatch(/invalid|unknown|expected/i);
  }
  expect(await object.listSubmissions()).toEqual([]);
});
