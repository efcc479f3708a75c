/** The templates of the dashboard, compiled: what they render is what htm renders of them. */

import htm from "htm/mini";
import { expect, it } from "vitest";
import { compiled } from "../../scripts/templates.ts";

const createElement = (type: unknown, props: object | null, ...children: unknown[]) => ({
  ...{ type, props, children },
});
const html = htm.bind(createElement);
const Rows = () => null;
const name = 'a "quoted" name';
const more = { title: "t", "aria-label": "l" };
const list = ["x", "y"];

const TEMPLATES = [
  () => html`<p>text</p>`,
  () => html`<p class="a b" title='it' open>a ${name} b</p>`,
  () => html`<a ...${more} href=${name} ...${{ id: 1 }}>x</a>`,
  () => html`<p class="one ${name} two">\`$\\ ${1}</p>`,
  () => html`<${Rows} of=${list} />`,
  () => html`<${Rows}><b>1</b><${Rows} /></${Rows}>`,
  () => html`<i /><b>2</b>${name}`,
  () => html`${name && html`<p>${list.map((each) => html`<i key=${each}>${each}</i>`)}</p>`}`,
  () => html`<p onClick=${() => html`<b>${name}</b>`}>…✕</p>`,
  () => html``,
];

it.each(TEMPLATES)("%s renders the same", (template) => {
  const code = compiled("a.js", `(${template})();`);
  expect(code).not.toContain("`<");
  const scope = { createElement, Rows, name, more, list };
  const render = new Function(...Object.keys(scope), `return ${code}`);
  const shown = (value: unknown) =>
    JSON.stringify(value, (_, each) =>
      typeof each === "function" ? JSON.stringify(each()) : (each ?? null),
    );
  expect(shown(render(...Object.values(scope)))).toBe(shown(template()));
});

it("a module imports the function that its templates call, and code that cannot be parsed is refused", () => {
  const module = `import { html } from "./html.ts";\nexport const a = ${String(TEMPLATES[0])};`;
  expect(compiled("a.ts", module)).toBe(
    'import { createElement } from "./html.ts";\nexport const a = () => createElement("p", null, "text");',
  );
  expect(() => compiled("a.ts", "const = 1;")).toThrow("a.ts: ");
  expect(() => compiled("a.ts", "const createElement = 1;")).toThrow("rename createElement");
});
