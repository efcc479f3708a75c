/** Compiles the templates of the dashboard, html`<p>${text}</p>`, to calls: createElement("p", null, text). The page needs no parser then. */

import htm from "htm/mini";
import { parseSync } from "rolldown/utils";

type Node = { readonly type: string; readonly start: number; readonly end: number };
type Template = Node & {
  readonly quasi: {
    readonly quasis: readonly { readonly value: { readonly cooked: string } }[];
    readonly expressions: readonly Node[];
  };
};

/** What htm gets for an expression. In a text it leaves its mark, and where it is spread, a property. */
class Expression {
  readonly #mark: string;
  readonly #code: string;

  constructor(at: number, code: string) {
    this.#mark = `\0${at}\0`;
    this.#code = code;
    Object.defineProperty(this, `...${this.#mark}`, { enumerable: true, value: this });
  }

  get code(): string {
    return this.#code;
  }

  toString(): string {
    return this.#mark;
  }
}

/** The code of a module, with calls of `createElement()` in place of its templates. */
export function compiled(file: string, code: string): string {
  // A variable of this name would be called in its place.
  if (/\bcreateElement\b/.test(code)) throw new Error(`${file}: rename createElement`);
  const { program, errors } = parseSync(file, code);
  if (errors[0]) throw new Error(`${file}: ${errors[0].message}`);
  return withCalls(program as unknown as Node, code).replace(
    /^import \{ html \}/m,
    "import { createElement }",
  );
}

function withCalls(node: Node, code: string): string {
  let text = "";
  let at = node.start;
  for (const template of templatesIn(node)) {
    text += code.slice(at, template.start) + callOf(template, code);
    at = template.end;
  }
  return text + code.slice(at, node.end);
}

/** The outermost ones, in their order. */
function templatesIn(node: unknown): Template[] {
  if (typeof node !== "object" || node === null) return [];
  const { type, tag } = node as { type?: string; tag?: { name?: string } };
  if (type === "TaggedTemplateExpression" && tag?.name === "html") return [node as Template];
  return Object.values(node)
    .flatMap(templatesIn)
    .sort((one, other) => one.start - other.start);
}

function callOf({ quasi: { quasis, expressions } }: Template, code: string): string {
  const values = expressions.map((each, at) => new Expression(at, withCalls(each, code)));
  const textOf = (part: unknown): string => {
    if (part instanceof Expression) return part.code;
    if (typeof part !== "string") return String(part);
    const texts = part.split(/\0(\d+)\0/);
    if (texts.length === 1) return JSON.stringify(part);
    const parts = texts.map((text, at) =>
      at % 2 === 1 ? `\${${values[Number(text)]?.code}}` : text.replace(/[`\\$]/g, "\\$&"),
    );
    return `\`${parts.join("")}\``;
  };
  const call = (type: unknown, props: object | null, ...children: unknown[]) => {
    const given = Object.entries(props ?? {}).map(([name, value]) =>
      name.startsWith("...") ? `...${textOf(value)}` : `${JSON.stringify(name)}: ${textOf(value)}`,
    );
    const fields = props === null ? "null" : `{ ${given.join(", ")} }`;
    const all = [textOf(type), fields, ...children.map(textOf)];
    return new Expression(-1, `createElement(${all.join(", ")})`);
  };
  const roots: unknown = htm.bind(call)(
    quasis.map(({ value }) => value.cooked) as unknown as TemplateStringsArray,
    ...values,
  );
  return Array.isArray(roots) ? `[${roots.map(textOf).join(", ")}]` : textOf(roots);
}
