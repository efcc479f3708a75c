/** What `perdure doctor` checks in the classes of a project: agents on each host, and their workflows. */

import path from "node:path";
import type { Node } from "@babel/types";
import { isPlainObject } from "../../core/options/options.ts";
import type { Need } from "../../engine/operated/needs.ts";
import { NEEDS } from "../../operator/needs.generated.ts";
import { isClass, type Sources } from "../project/classes.ts";
import { objectsIn, textOf, workflowsIn } from "../project/config.ts";
import { installs, unknownFeatures } from "../project/features.ts";
import {
  callsDurable,
  callsOf,
  installOf,
  isPlainBase,
  isThis,
  kebabOf,
  lineageOf,
  mountedBy,
  type Role,
  roleOf,
  shown,
  THINK_WORKFLOWS,
} from "../project/hosts.ts";
import {
  dotted,
  memberOf,
  methodCalls,
  nameOf,
  nodesOf,
  propertyOf,
  type SourceClass,
} from "../project/modules.ts";
import { RACE_REMEDY, racesIn } from "../project/races.ts";
import { codeOf } from "../project/values.ts";
import type { CheckResult, Project } from "./project.ts";

const check = "hosts";

export function checkHosts(project: Project): CheckResult[] {
  const { sources } = project;
  const all = sources.classes.map((cls) => ({ cls, role: roleOf(sources, cls) }));
  const results = all.flatMap(({ cls, role }) => [
    ...lifecycleProblem(sources, cls, role),
    ...chatProblem(sources, cls, role),
    ...workflowProblem(sources, cls, role),
    ...notCheckedFeatures(sources, cls, role),
    ...featureProblems(project, cls, role),
    ...stepProblems(sources, cls, role),
    ...servingProblems(sources, cls, role),
  ]);
  results.push(...raceProblems(sources));
  const unread = parseProblems(project);
  if (results.length > 0 || unread.length > 0) return [...unread, ...results];
  const text = all
    .flatMap(({ cls, role }) => (role.is === "agent" ? [`${cls.name} on ${role.host}`] : []))
    .join(", ");
  if (text !== "") return [{ check, level: "ok", text }];
  return [{ check, level: "skipped", text: "The sources declare no class on a host of Perdure" }];
}

/** JavaScript that the Worker does not import may be of another dialect. */
function parseProblems({ sources, ...project }: Project): CheckResult[] {
  const reachable = sources.reachableFrom(mainOf({ sources, ...project }));
  return sources.problems.map(({ file, text }): CheckResult => {
    const isOfWorker = reachable.has(file) || /\.[cm]?tsx?$/.test(file);
    return { check, level: isOfWorker ? "error" : "skipped", text: `Cannot parse ${text}` };
  });
}

/** A call of durable(this) needs the object's Lifecycle. A base class of a package may have one. */
function lifecycleProblem(sources: Sources, cls: SourceClass, role: Role): CheckResult[] {
  if (role.is !== "agent" || !callsDurable(sources, cls)) return [];
  const { classes, base } = lineageOf(sources, cls);
  if (!isPlainBase(base)) return [];
  if (classes.some((each) => installOf(each) || hasOwn(each, "lifecycle"))) return [];
  const text = `${shown(sources, cls)} calls durable(this), but has no Lifecycle`;
  const remedy =
    "Add a field before it: readonly lifecycle = Lifecycle.install(this), with Lifecycle of agents/lifecycle.";
  return [{ check, level: "error", text, remedy }];
}

/** Whether a class declares a member, or assigns it to itself. */
function hasOwn(cls: SourceClass, name: string): boolean {
  const assigned = nodesOf(cls.node, "AssignmentExpression").some(
    ({ left }) =>
      left.type === "MemberExpression" && propertyOf(left) === name && isThis(left.object),
  );
  return assigned || memberOf(cls, name) !== undefined;
}

/** Only options that the class writes itself are certain: others may have gone through durable(). */
function chatProblem(sources: Sources, cls: SourceClass, role: Role): CheckResult[] {
  if (role.is !== "agent" || role.host !== "perdure/chat" || names(cls.node, "durable") > 0)
    return [];
  const calls = callsOf(sources, cls, "ai", "streamText");
  if (!calls.some(([options]) => isWritten(options, cls))) return [];
  const text = `${shown(sources, cls)} calls streamText() without this.durable()`;
  const remedy =
    "Call streamText(this.durable({ ... })): submissions need it for steering, budgets and structured answers, and so that a crash repeats no tool.";
  return [{ check, level: "warning", text, remedy }];
}

/** How often code names something. */
const names = (root: Node, name: string) =>
  nodesOf(root, "Identifier").filter((each) => each.name === name).length;

/** Whether a value is an object that spreads no other one: in its place, or in a variable of the class. */
function isWritten(value: Node | null | undefined, cls: SourceClass): boolean {
  if (value?.type === "Identifier") {
    const variables = nodesOf(cls.node, "VariableDeclarator");
    const variable = variables.find(({ id }) => dotted(id) === value.name);
    return variable?.init?.type === "ObjectExpression" && isWritten(variable.init, cls);
  }
  if (value?.type === "LogicalExpression") return isWritten(value.right, cls);
  if (value?.type === "ConditionalExpression")
    return isWritten(value.consequent, cls) && isWritten(value.alternate, cls);
  return (
    value?.type === "ObjectExpression" &&
    value.properties.every((each) => each.type !== "SpreadElement" || isWritten(each.argument, cls))
  );
}

/** The class of a workflow's agent. */
function targetOf(sources: Sources, cls: SourceClass, role: Role): SourceClass | undefined {
  if (role.is !== "workflow") return undefined;
  const targets = lineageOf(sources, cls).classes.map(({ file, target }) =>
    target === undefined ? undefined : sources.find(file, target),
  );
  return targets.find(isClass);
}

function workflowProblem(sources: Sources, cls: SourceClass, role: Role): CheckResult[] {
  const target = targetOf(sources, cls, role);
  if (!target || role.is !== "workflow") return [];
  const of = roleOf(sources, target);
  const what = `${shown(sources, cls)} extends ${role.by}`;
  if (role.of === "agent" && of.is === "agent" && of.host === "perdure/object") {
    const text = `${what}, and its object ${target.name} is a plain Durable Object`;
    const remedy = `Extend DurableWorkflow of perdure/workflow: only an agent can start a class that extends ${role.by}.`;
    return [{ check, level: "error", text, remedy }];
  }
  if (role.isThinks && of.is === "agent") {
    const text = `${what} of ${THINK_WORKFLOWS}, and its agent ${target.name} extends ${of.by}`;
    const remedy =
      "Import it from perdure/workflow, or run npx perdure init --apply: Think's own has no steps of Perdure.";
    return [{ check, level: "warning", text, remedy }];
  }
  const isAgent = of.is === "sdk-agent" || (of.is === "agent" && of.host !== "perdure/object");
  if (role.of === "agent" || !isAgent) return [];
  const text = `${what}, and its agent ${target.name} extends ${of.by}`;
  const remedy =
    "Extend ThinkWorkflow of perdure/workflow: only a plain object can start a class that extends DurableWorkflow.";
  return [{ check, level: "error", text, remedy }];
}

const mainOf = ({ settings, folder }: Project) => path.resolve(folder, textOf(settings.main) ?? "");

/** What the class of a binding is. It is unknown where a package has it. */
export function roleOfBound(project: Project, className: string): Role {
  const { sources } = project;
  const found = sources.findExport(mainOf(project), className);
  return isClass(found) ? roleOf(sources, found) : { is: "unknown" };
}

/** What classes write, or their projects serve, and the features that they need for it. */
const ALL_NEEDS = Object.entries<Need>(NEEDS);

function isUsed(cls: SourceClass, sources: Sources, written: Need["step"] | Need["written"]) {
  const { member, method, flag, options, calls = [] } = written ?? {};
  const called = method === undefined ? [] : methodCalls(cls.node, method);
  const isMeant = (call: Called) =>
    (flag === undefined || hasFlag(call, flag)) &&
    (options === undefined || options.some((each) => hasOption(call, each)));
  return (
    (member !== undefined && memberOf(cls, member) !== undefined) ||
    called.some(isMeant) ||
    calls.some(([from, name]) => callsOf(sources, cls, from, name).length > 0)
  );
}

type Called = ReturnType<typeof methodCalls>[number];

/** Whether an argument of a call is an object with the option: `rate`, or `budget.usd`. */
function hasOption(call: Called, option: string): boolean {
  const ends = option
    .split(".")
    .reduce<Node[]>(
      (objects, name) =>
        objects.flatMap((each) =>
          each.type === "ObjectExpression"
            ? each.properties.flatMap((one) =>
                one.type === "ObjectProperty" && nameOf(one.key) === name ? [one.value] : [],
              )
            : [],
        ),
      [...call.arguments],
    );
  return ends.length > 0;
}

/** Whether a call has the field, as `true`. */
const hasFlag = (call: Node, flag: string) =>
  nodesOf(call, "ObjectProperty").some(
    ({ key, value }) => nameOf(key) === flag && value.type === "BooleanLiteral" && value.value,
  );

/** Whether an argument writes or reads one of these properties. */
const hasProperty = (argument: Node, properties: readonly string[]) =>
  nodesOf(argument, "ObjectProperty").some(({ key }) => properties.includes(nameOf(key))) ||
  nodesOf(argument, "MemberExpression").some((each) => properties.includes(propertyOf(each) ?? ""));

function featureProblems(project: Project, cls: SourceClass, role: Role): CheckResult[] {
  const { sources, settings } = project;
  if (role.is !== "agent") return [];
  const { classes } = lineageOf(sources, cls);
  const bindings = objectsIn(settings).flatMap(({ binding, className }) =>
    sources.findExport(mainOf(project), className) === cls ? [binding] : [],
  );
  const isNamed = (argument: Node) =>
    nodesOf(argument, "MemberExpression").some((each) => bindings.includes(propertyOf(each) ?? ""));
  const whyOf = ({ written, receiving, mounts = [] }: Need) => {
    if (classes.some((each) => isUsed(each, sources, written))) return written?.why;
    if (bindings.length === 0) return undefined;
    const { by = [], properties, why } = receiving ?? {};
    const isGiven = (each: Node) => !properties || hasProperty(each, properties);
    if (sources.argumentsOf(by).some((given) => given.some(isNamed) && given.some(isGiven)))
      return why;
    const [mount] = mountedBy(sources, mounts);
    return mount && `is bound, and the project mounts ${mount}`;
  };
  return ALL_NEEDS.flatMap(([feature, need]): CheckResult[] => {
    const { from, preset, mounts } = need;
    if (preset === role.host || mayInstall(sources, cls, feature, from)) return [];
    const why = whyOf(need);
    if (why === undefined) return [];
    const text = `${shown(sources, cls)} ${why}, but it installs no ${feature}()`;
    const level = mounts ? "warning" : "error";
    return [{ check, level, text, remedy: installing(role, feature, from) }];
  });
}

/** A workflow's steps that its agent does not take. Steps of a plain object's workflow have an error of their own. */
function stepProblems(sources: Sources, cls: SourceClass, role: Role): CheckResult[] {
  const target = targetOf(sources, cls, role);
  const of = target && roleOf(sources, target);
  if (!target || of?.is !== "agent" || of.host === "perdure/object") return [];
  return ALL_NEEDS.flatMap(([feature, { from, step }]): CheckResult[] => {
    if (!step || !isUsed(cls, sources, step) || mayInstall(sources, target, feature, from))
      return [];
    const text = `${shown(sources, cls)} calls ${step.name}, but its agent ${target.name} installs no ${feature}()`;
    return [{ check, level: "error", text, remedy: installing(of, feature, from) }];
  });
}

function raceProblems(sources: Sources): CheckResult[] {
  return racesIn(sources).map(({ call, file, line }) => {
    const text = `${file}:${line} calls ${call} in a workflow: a replay may take another branch`;
    return { check, level: "warning", text, remedy: RACE_REMEDY };
  });
}

/** What a class hands out, and the Worker does not serve. */
function servingProblems(sources: Sources, cls: SourceClass, role: Role): CheckResult[] {
  return ALL_NEEDS.flatMap(([feature, { served, written, step }]): CheckResult[] => {
    if (!served || sources.imports(...served)) return [];
    const isStep = role.is === "workflow" && step && isUsed(cls, sources, step);
    const why = isStep ? `calls ${step.name}` : written?.why;
    if (!why || !(isStep || (role.is === "agent" && isUsed(cls, sources, written)))) return [];
    const [from, name] = served;
    const text = `${shown(sources, cls)} ${why}, but the project mounts no ${name}()`;
    const remedy = `Pass ${name}({ secret: "..." }) of ${from} to webhooks() in the Worker, with the secret of ${feature}().`;
    return [{ check, level: "error", text, remedy }];
  });
}

function installing({ host }: Role & { is: "agent" }, feature: string, from: string): string {
  const values: Readonly<Record<string, string>> = {
    signedLinks: "signedLinks({ url, secret })",
    limits: "limits({ limits: [...] })",
  };
  const value = values[feature] ?? `${feature}()`;
  const where =
    host === "perdure/object"
      ? `Add to the options of durable(): features: [${value}]`
      : `Add to the class: static override readonly features = [${value}]`;
  return `${where}, with ${feature} of ${from}.`;
}

/** Whether a class installs the feature, or may do so: by a base, or a part of its list, that the sources do not tell. */
function mayInstall(sources: Sources, cls: SourceClass, feature: string, from: string): boolean {
  if (lineageOf(sources, cls).base === "unknown") return true;
  return installs(sources, cls, feature, from) || unknownFeatures(sources, cls).length > 0;
}

/** Without a note of it, a check mark would stand for what was not looked at. */
function notCheckedFeatures(sources: Sources, cls: SourceClass, role: Role): CheckResult[] {
  const [unknown] = role.is === "agent" ? unknownFeatures(sources, cls) : [];
  if (!unknown) return [];
  const text = `Not checked: the features of ${shown(sources, cls)} contain \`${codeOf(sources, unknown)}\`, which the sources do not resolve`;
  const remedy = "Write the calls into the list, or assign them to a const of the project.";
  return [{ check, level: "skipped", text, remedy }];
}

/**
 * Finds classes on a host and workflows without a binding that the Worker imports, and that no other class extends and
 * no code uses as a value, as it does sub-agents.
 */
export function unbound(project: Project): CheckResult[] {
  const { sources, settings, file } = project;
  if (!sources.isComplete) return [];
  const main = mainOf(project);
  const reachable = sources.reachableFrom(main);
  const declared = [...objectsIn(settings), ...workflowsIn(settings)].map((each) => each.className);
  const bases = sources.classes.flatMap((each) => lineageOf(sources, each).classes.slice(1));
  const used = new Set([
    ...declared.map((name) => sources.findExport(main, name)),
    ...sources.classes.filter(
      ({ name, node }) => ("abstract" in node && node.abstract) || declared.includes(name),
    ),
    ...bases,
    ...sources.values,
  ]);
  const exported = [...sources.module(main).exports.keys()];
  // `ctx.exports` has them without a binding.
  const exportedObjects = new Set(
    Object.keys(isPlainObject(settings.exports) ? settings.exports : {}),
  );
  return sources.classes.flatMap((cls) => {
    const role = roleOf(sources, cls);
    if (used.has(cls) || !reachable.has(cls.file)) return [];
    const name = exported.find((each) => sources.findExport(main, each) === cls) ?? cls.name;
    const config = path.basename(file);
    if (role.is === "workflow") {
      const text = `No workflow in ${config} has the class ${shown(sources, cls)}, which extends ${role.by}`;
      const entry = `{ "name": "${kebabOf(name)}", "binding": "${kebabOf(name).replaceAll("-", "_").toUpperCase()}", "class_name": "${name}" }`;
      const remedy = `Add ${entry} to workflows in ${config}, and export the class in ${path.relative(project.folder, main)}.`;
      return [{ check: "bindings", level: "error", text, remedy }];
    }
    if (role.is !== "agent" || exportedObjects.has(name)) return [];
    const how = role.host === "perdure/object" ? "calls" : "extends";
    const text = `No Durable Object binding has the class ${shown(sources, cls)}, which ${how} ${role.by}`;
    const add = `Add { "name": "${name}", "class_name": "${name}" } to durable_objects.bindings in ${config}`;
    const remedy = `${add}, and the class to a migration. Do so as well where only another Worker binds it.`;
    return [{ check: "bindings", level: "error", text, remedy }];
  });
}
