/** The Markdown of a model, as Slack, Telegram and Discord show it. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { givenProvider } from "./fake-provider.ts";
import { apisAt, DONE, type Name, sendTo, TO } from "./kinds.ts";

const ended = (output: unknown) => ({
  type: "submission.completed",
  timestamp: new Date(0).toISOString(),
  data: { submissionId: "s", status: "completed", attempts: 1, output },
});

async function sent(name: Name, event: unknown) {
  const { url, asked } = givenProvider(() => DONE[name]);
  const { failure } = await sendTo(TO[name], event, { apis: apisAt(url) });
  expect(failure).toBeUndefined();
  return asked[0]?.body as Record<string, unknown>;
}
const slackText = async (event: unknown) => (await sent("slack", event)).text as string;

const TABLE =
  "| Item | Price |\n|:-----|------:|\n| **Tea** | 4 |\n| [Milk](https://m.example) | 12 |";
const ALIGNED =
  "Item                      Price\n------------------------  -----\nTea                       4\nMilk (https://m.example)  12";

describe("Markdown in Slack", () => {
  it.each([
    ["bold", "**Refund** and __more__", "*Refund* and *more*"],
    ["italic", "*one* _two_ snake_case_name 2 * 3 * 4", "_one_ _two_ snake_case_name 2 * 3 * 4"],
    ["both", "***one*** **a *b* c**", "*_one_* *a* *_b_* *c*"],
    ["struck", "~~old~~ new ~ about", "~old~ new ~ about"],
    ["headings", "# One\n### Two **bold** ##", "*One*\n*Two bold*"],
    ["lists", "- a\n  * **b**\n+ [x] c\n1. d", "• a\n  • *b*\n☑ c\n1. d"],
    [
      "links",
      "[order](https://s.example/a_b?c|d&e) <https://x.example/_y_>",
      "<https://s.example/a_b?c%7Cd&amp;e|order> &lt;https://x.example/_y_&gt;",
    ],
    ["an image", "![chart](https://s.example/c_(1).png)", "<https://s.example/c_(1).png|chart>"],
    ["code", "run `a*b*c` and ``x`y``", "run `a*b*c` and `x`y`"],
    [
      "fences",
      "```ts\nconst a = '**b**' < 1;\n```\n**c**",
      "```\nconst a = '**b**' &lt; 1;\n```\n*c*",
    ],
    ["an open fence", "~~~\n# a", "```\n# a\n```"],
    ["quotes and rules", "> **a**\n---", "&gt; *a*\n———"],
    ["a table", TABLE, `\`\`\`\n${ALIGNED}\n\`\`\``],
    ["escapes", "\\*a\\* 5 \\_", "*a* 5 _"],
    ["marks inside of a word", "un**frigging**believable", "un\u200B*frigging*\u200Bbelievable"],
    ["marks without an end", "**a *b", "**a *b"],
  ])("shows %s", async (_, markdown, expected) => {
    expect(await slackText(ended(markdown))).toBe(expected);
    expect(await slackText({ text: markdown })).toBe(expected);
  });

  it("has no mentions and no other schemes, whatever the text is", async () => {
    const text = "**<!here>** [a](javascript:alert) [<@U1>](https://x.example) <!channel|x>";
    expect(await slackText(text)).toBe(
      "*&lt;!here&gt;* [a](javascript:alert) <https://x.example|&lt;@U1&gt;> &lt;!channel|x&gt;",
    );
  });

  it("is left to the app where it sets `mrkdwn`, and JSON is not Markdown", async () => {
    expect(await slackText({ text: "*a* **b**", mrkdwn: true })).toBe("*a* **b**");
    expect(await slackText(ended({ a: "**b**" }))).toContain('"**b**"');
  });

  it("is cut outside of links, and with the end of its code", async () => {
    const links = await slackText(ended("[order](https://s.example/1) ".repeat(2_000)));
    expect(links).toMatch(/\|order> *\n\[cut\]$/);
    const code = await slackText(ended(`\`\`\`\n${"x\n".repeat(30_000)}\`\`\``));
    expect(code.length).toBeLessThanOrEqual(40_000);
    expect(code).toMatch(/x\n*\n```\n\[cut\]$/);
  });
});

describe("Markdown in Telegram", () => {
  it("is a text with ranges", async () => {
    const markdown = `# Done\n**a** 🙂 *b* ~~c~~ \`d\` [e](https://e.example)\n\`\`\`js\nf()\n\`\`\`\n${TABLE}`;
    const { text, entities, parse_mode } = await sent("telegram", ended(markdown));
    expect(parse_mode).toBeUndefined();
    expect(text).toBe(`Done\na 🙂 b c d e\nf()\n${ALIGNED}`);
    const shown = (entities as { offset: number; length: number; type: string }[]).map(
      ({ offset, length, ...rest }) => [(text as string).slice(offset, offset + length), rest],
    );
    expect(shown).toEqual([
      ["Done", { type: "bold" }],
      ["a", { type: "bold" }],
      ["b", { type: "italic" }],
      ["c", { type: "strikethrough" }],
      ["d", { type: "code" }],
      ["e", { type: "text_link", url: "https://e.example" }],
      ["f()", { type: "pre", language: "js" }],
      [ALIGNED, { type: "pre" }],
    ]);
  });

  it("is cut with the ranges that are left, at most 100, and is left to the app with parse_mode", async () => {
    const long = await sent("telegram", ended("**bold** ".repeat(1_000)));
    const { length } = long.text as string;
    expect(length).toBeLessThanOrEqual(4_096);
    expect(long.entities).toHaveLength(100);
    const own = { text: "<b>a</b> **b**", parse_mode: "HTML" };
    expect(await sent("telegram", own)).toMatchObject(own);
    expect(await sent("telegram", "plain")).not.toHaveProperty("entities");
  });
});

describe("Markdown in Discord", () => {
  it("is sent as it is, but for tables and small headings", async () => {
    const markdown = "# One\n**a** | b\n```sh\nx | y\n```";
    expect((await sent("discord", ended(markdown))).content).toBe(markdown);
    const { content } = await sent("discord", ended(`#### Four\n${TABLE}\n> q`));
    expect(content).toBe(`**Four**\n\`\`\`\n${ALIGNED}\n\`\`\`\n> q`);
  });
});

describe("any Markdown", () => {
  it("becomes a text, in linear time", async () => {
    const piece = fc.constantFrom(
      ..."a b * ** *** _ __ ~~ ` `` ``` [ ]( ) # - > | |- \\ ! 1 \n".split(" "),
      "\n",
      " ",
      "https://x.example",
    );
    const texts = fc.array(piece, { minLength: 1, maxLength: 60 }).map((all) => `a${all.join("")}`);
    await fc.assert(
      fc.asyncProperty(texts, async (markdown) => {
        const words = (text: unknown) => String(text).match(/[ab]/g)?.length;
        const { text } = await sent("telegram", ended(markdown));
        expect((text as string).isWellFormed()).toBe(true);
        expect(await slackText(ended(markdown))).toContain("a");
        expect(words(text)).toBeGreaterThanOrEqual(1);
      }),
      { numRuns: 200 },
    );
    // In quadratic time it would take an hour.
    for (const part of [
      "*",
      "**a",
      "_",
      "`",
      "[",
      "![",
      "[a](",
      "|\n|-\n",
      "```\n",
      "- ",
      "> ",
      " ",
    ])
      await slackText(ended(`x${part.repeat(60_000)}x`));
  }, 60_000);
});
