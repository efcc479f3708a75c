/**
 * Preact's elements as tagged templates, so that the page needs no JSX. scripts/templates.ts compiles them to calls of
 * `createElement()`. A component renders again when a signal that it has read changes.
 */

import htm from "htm/mini";
import { Component, type ComponentType, type FunctionComponent, h, type VNode } from "preact";
import { effect } from "./signals.ts";

type Type = Parameters<typeof h>[0] | FunctionComponent<never>;
const components = new WeakMap<object, ComponentType>();

/** Smaller than the integration of @preact/signals, which needs Preact's hooks. */
function tracked(render: FunctionComponent): ComponentType {
  const known = components.get(render);
  if (known) return known;
  class Tracked extends Component {
    #stop = () => {};

    override render(props: object) {
      let shown: ReturnType<FunctionComponent> | undefined;
      this.#stop();
      this.#stop = effect(() => {
        if (shown === undefined) shown = render(props) ?? null;
        else this.setState({});
      });
      return shown;
    }

    override componentWillUnmount() {
      this.#stop();
    }
  }
  components.set(render, Tracked);
  return Tracked;
}

/** Called by what the build makes of templates. @public */
export const createElement = (type: Type, props: object | null, ...children: unknown[]) =>
  h(
    (typeof type === "function" ? tracked(type as FunctionComponent) : type) as string,
    props,
    ...(children as VNode[]),
  );

export const html = /* @__PURE__ */ htm.bind(createElement);
