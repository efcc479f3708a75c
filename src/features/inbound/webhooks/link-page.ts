/** The pages of signed links: plain HTML without scripts, which nothing else may embed, store or index. */

import type { Json } from "../../../core/json.ts";

/** The texts of a page. None of them is trusted. */
export type Page = {
  readonly heading: string;
  readonly lines: readonly string[];
  /** The subject of the decision. */
  readonly details?: readonly { readonly label: string; readonly value: Json }[];
  /** Asks for a decision: pressing it sends a POST to the URL of the page. */
  readonly button?: { readonly label: string; readonly isDangerous: boolean };
};

/** UTF-16 units of a text, and of the JSON of a value, on a page. */
const MAX_TEXT = 300;
const MAX_VALUE = 200_000;

const STYLE = `:root{color-scheme:light dark}
body{font:1.125rem/1.5 system-ui,sans-serif;margin:0;padding:1.5rem;color:#1a1a1a;background:#fff}
main{max-width:40rem;margin:0 auto}
h1{font-size:1.5rem;line-height:1.25;overflow-wrap:anywhere}
p,dd{overflow-wrap:anywhere}
dt{font-weight:600;margin-top:1rem}
dd{margin:0}
pre{white-space:pre-wrap;overflow-wrap:anywhere;font-size:1rem;padding:.75rem;border:1px solid #767676;border-radius:.375rem;max-height:50vh;overflow:auto}
button{font:inherit;font-weight:600;min-height:3rem;width:100%;margin-top:1.5rem;padding:.5rem 1.5rem;border:0;border-radius:.375rem;color:#fff;background:#0b5c2d;cursor:pointer}
button.danger{background:#a11212}
button:focus-visible,pre:focus-visible{outline:3px solid #1a66ff;outline-offset:3px}
@media(prefers-color-scheme:dark){body{color:#f2f2f2;background:#161616}}`;

/** The response with a page. */
export function pageResponse(
  page: Page,
  status: number,
  headers: Readonly<Record<string, string>> = {},
): Response {
  const nonce = crypto.randomUUID();
  return new Response(htmlOf(page, nonce), {
    status,
    headers: {
      ...headers,
      ...PRIVATE,
      "content-type": "text/html; charset=utf-8",
      "content-security-policy": `default-src 'none'; style-src 'nonce-${nonce}'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'`,
    },
  });
}

/** For all responses: a link is a secret. */
export const PRIVATE = {
  "cache-control": "no-store",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "x-robots-tag": "noindex, nofollow",
  vary: "accept",
} as const;

function htmlOf({ heading, lines, details = [], button }: Page, nonce: string): string {
  const title = escaped(shown(heading, MAX_TEXT));
  const paragraphs = lines.map((line) => `<p dir="auto">${escaped(shown(line, MAX_TEXT))}</p>`);
  const items = details.map(
    ({ label, value }) =>
      `<dt>${escaped(label)}</dt><dd><pre dir="auto" tabindex="0" role="region" aria-label="${escaped(label)}">${escaped(shown(textOf(value), MAX_VALUE))}</pre></dd>`,
  );
  const form =
    button &&
    `<form method="post"><button type="submit"${button.isDangerous ? ' class="danger"' : ""}>${escaped(button.label)}</button></form>`;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex, nofollow">
<meta name="referrer" content="no-referrer">
<title>${title}</title>
<style nonce="${nonce}">${STYLE}</style>
</head>
<body>
<main>
<h1 dir="auto">${title}</h1>
${paragraphs.join("\n")}
${items.length > 0 ? `<dl>${items.join("\n")}</dl>` : ""}
${form ?? ""}
</main>
</body>
</html>
`;
}

function textOf(value: Json): string {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

/** Without characters that change how the text around them reads, and not longer than that. */
function shown(text: string, length: number): string {
  const plain = text
    .toWellFormed()
    .replace(/[\p{Cc}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu, keptOrMarked);
  return plain.length > length
    ? `${plain.slice(0, length).replace(/[\ud800-\udbff]$/, "")} ... (cut: ${plain.length - length} more characters are not shown)`
    : plain;
}

function keptOrMarked(character: string): string {
  return character === "\n" || character === "\t" ? character : "\ufffd";
}

function escaped(text: string): string {
  return text.replace(/[&<>"'`]/g, (character) => `&#${character.charCodeAt(0)};`);
}
