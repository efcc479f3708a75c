import { expect, it } from "vitest";
import { givenAgent } from "../app/given.ts";
import { HOSTS, NESTED_HOSTS } from "../app/hosts.ts";

for (const host of [...HOSTS, ...NESTED_HOSTS]) {
  it(`L1: ${host.title}`, async () => {
    const agent = givenAgent(host);
    const id = await agent.submit("Hello");
    expect(await agent.untilEnded(id)).toMatchObject({ output: "You said: Hello" });
    await agent.crash();
    expect(await agent.inspect(id)).toMatchObject({ output: "You said: Hello" });
    const workflow = await agent.start({ step: "text", prompt: "Hi" });
    expect(await agent.untilOutput(workflow)).toBe("You said: Hi");
  });
}
