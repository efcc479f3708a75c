/** The routes: a refused request gets its status and an error in JSON, and leaves no agent behind. */

import { createExecutionContext } from "cloudflare:test";
import { afterEach, beforeEach, expect, it } from "vitest";
import worker from "../src/worker.ts";
import { agentsStored, env, givenDelivery, operate, post, send } from "./given.ts";

let before: string[];
beforeEach(async () => {
  before = await agentsStored();
});
afterEach(async () => {
  expect(await agentsStored()).toEqual(before);
});

it("a delivery with the signature of another secret is refused with 401", async () => {
  expect(await post(givenDelivery(), "guessed")).toMatchObject({ status: 401 });
});

it.each<[string, object]>([
  ["name of its repository", { repository: {} }],
  ["issue", { issue: undefined }],
  ["issue number above 0", { issue: { number: 0, title: "A title" } }],
  ["text as its title", { issue: { number: 1, title: 5 } }],
])("a payload without %s is refused with 400", async (_, fields) => {
  expect(await post(givenDelivery("issues", "opened", fields))).toMatchObject({ status: 400 });
});

it.each(["ping", "push"])("a %s is answered with 200 and starts nothing", async (event) => {
  expect(await post({ ...givenDelivery(), event })).toMatchObject({ status: 200 });
});

it("a body over 1 MiB is refused with 413, an unknown path with 404", async () => {
  const body = "x".repeat(1024 * 1024 + 1);
  expect(await post({ ...givenDelivery(), body })).toMatchObject({ status: 413 });
  expect(await operate("/unknown")).toMatchObject({ status: 404 });
});

it.each(["/results", "/perdure/api/report"])("%s without the token is refused", async (path) => {
  const headers = { Authorization: `Bearer ${env.WEBHOOK_SECRET}` };
  expect(await send(path, { headers })).toMatchObject({ status: 401 });
  expect(await send(path, { method: "POST" })).toMatchObject({ status: 401 });
});

it("a worker without its secrets refuses every request", async () => {
  const { WEBHOOK_SECRET: _secret, ADMIN_TOKEN: _token, ...bare } = env;
  const statusOf = async (path: string, method: string) => {
    const request = new Request<unknown, IncomingRequestCfProperties>(`https://a.test${path}`, {
      method,
    });
    return (await worker.fetch(request, bare, createExecutionContext())).status;
  };
  expect(await statusOf("/webhooks/github", "POST")).toBe(503);
  expect(await statusOf("/results", "GET")).toBe(401);
});
