/** Secrets that options and the configuration name: whether they are there, and have the form that their use needs. */

import path from "node:path";
import type { Node } from "@babel/types";
import { isPlainObject } from "../../core/options/options.ts";
import { SECRET_NAME } from "../../core/secrets.ts";
import { isClass, SECRET_OPTION } from "../project/classes.ts";
import { type Settings, textOf, textsOf } from "../project/config.ts";
import { dotted, nameOf, nodesOf } from "../project/modules.ts";
import { localSecrets } from "../project/source.ts";
import { textsIn } from "../project/values.ts";
import type { CheckResult, Project } from "./project.ts";

const check = "secrets";
/** Functions whose secrets are keys in base64. */
const OF_KEYS = new Set([
  ...["perdure/webhooks standardWebhooks", "perdure/webhooks svix", "perdure/outbox webhook"],
]);
const BASE64_KEY = /^(?:v1,)?(?:whsec_)?(?:[A-Za-z\d+/]{4})*(?:[A-Za-z\d+/]{2,3}={0,2})?$/;

/** An option of one of Perdure's functions that names a secret. */
type Named = {
  readonly name: string;
  readonly option: string;
  readonly by: string;
  readonly where: string;
};

/** Prints no value: those of `.dev.vars` are read for their form only. */
export function checkSecrets(project: Project): CheckResult[] {
  const { folder, settings, file, sources } = project;
  const config = path.basename(file);
  const required = isPlainObject(settings.secrets) ? settings.secrets.required : undefined;
  const named = new Map(textsOf(required).map((name) => [name, config]));
  for (const { name, file: at, line } of sources.secrets) named.set(name, `${at}:${line}`);
  const vars = isPlainObject(settings.vars) ? Object.keys(settings.vars) : [];
  const local = localSecrets(folder);
  const there = new Set([...local.values.keys(), ...vars]);
  const malformed = [
    ...requiredProblems(settings, config),
    ...local.problems.map((text): CheckResult => ({ check, level: "error", text })),
    ...formProblems(optionsIn(project), local),
    ...emptyProblems(named, local),
  ];
  const missing = [...named].filter(([name]) => !there.has(name));
  const results = missing.map(
    ([name, where]): CheckResult => ({
      check,
      level: "warning",
      text: `${where} names the secret ${name}, which .dev.vars does not have`,
      remedy: `Add a line ${name}=... to .dev.vars, and run npx wrangler secret put ${name} for the deployment.`,
    }),
  );
  if (malformed.length + results.length > 0) return [...malformed, ...results];
  const text = named.size > 0 ? [...named.keys()].join(", ") : "the sources name none";
  return [{ check, level: "ok", text }];
}

type Local = ReturnType<typeof localSecrets>;

function requiredProblems({ secrets }: Settings, config: string): CheckResult[] {
  if (secrets === undefined) return [];
  const required = isPlainObject(secrets) ? secrets.required : secrets;
  if (
    required === undefined ||
    (textsOf(required).length === [required].flat().length && Array.isArray(required))
  )
    return [];
  const text = `secrets.required in ${config} is ${JSON.stringify(required)}; expected a list of names`;
  return [{ check, level: "error", text, remedy: `Set it to e.g. ["HOOK_SECRET"].` }];
}

function emptyProblems(named: ReadonlyMap<string, string>, local: Local): CheckResult[] {
  return [...named].flatMap(([name, where]): CheckResult[] => {
    if (local.values.get(name) !== "") return [];
    const text = `The secret ${name} in ${local.file} is empty (${where} names it)`;
    return [{ check, level: "error", text, remedy: `Write its value after ${name}=.` }];
  });
}

function formProblems(options: readonly Named[], { file, values }: Local): CheckResult[] {
  return options.flatMap(({ name, option, by, where }): CheckResult[] => {
    if (!SECRET_NAME.test(name)) {
      const text = `${where}: ${option} is not the name of a secret (not shown)`;
      const remedy = `Store the secret under a name, npx wrangler secret put HOOK_SECRET, and write ${option}: "HOOK_SECRET".`;
      return [{ check, level: "error", text, remedy }];
    }
    const value = values.get(name) ?? "";
    if (!OF_KEYS.has(by) || BASE64_KEY.test(value.trim())) return [];
    const text = `The secret ${name} in ${file} is not base64, which ${by.split(" ")[1]}() (${where}) needs`;
    const remedy = 'Store it as the sender shows it: base64, with or without "whsec_" in front.';
    return [{ check, level: "error", text, remedy }];
  });
}

function optionsIn({ sources, folder, settings }: Project): Named[] {
  const main = path.resolve(folder, textOf(settings.main) ?? "");
  return sources.filesOf(main).flatMap((file) =>
    nodesOf(sources.module(file).tree, "CallExpression").flatMap((call): Named[] => {
      const called = sources.find(file, dotted(call.callee) ?? "");
      if (!called || isClass(called) || !called.from.startsWith("perdure/")) return [];
      const by = `${called.from} ${called.name}`;
      return call.arguments.flatMap(propertiesIn).flatMap(([option, node]) => {
        const where = `${path.relative(folder, file)}:${node.loc?.start.line ?? 1}`;
        const each = node.type === "ArrayExpression" ? node.elements : [node];
        const names = each.flatMap((one) => (one && textsIn(sources, { file, node: one })) ?? []);
        return names.map((name) => ({ name, option, by, where }));
      });
    }),
  );
}

/** Options that name secrets, also in objects within. Functions are the app's own code. */
function propertiesIn(node: Node): [option: string, value: Node][] {
  if (node.type !== "ObjectExpression") return [];
  return node.properties.flatMap((each) => {
    if (each.type !== "ObjectProperty") return [];
    const name = nameOf(each.key);
    return SECRET_OPTION.test(name) ? [[name, each.value]] : propertiesIn(each.value);
  });
}
