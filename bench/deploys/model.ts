/** The model of the cells: scripted, held where a prompt says so, and with the tool that it is offered. */

import { ScriptedModel } from "../../src/testing/scripted-model.ts";

type Options = Parameters<ScriptedModel["doStream"]>[0];

/** A mark in a prompt: the model answers when the desk is open. */
export const HELD = "held";

export class CellModel extends ScriptedModel {
  /**
   * @param tool which it calls, also if the prompt is of older code
   * @param pass waits for the desk
   */
  constructor(
    private readonly tool: string,
    private readonly pass: () => Promise<void>,
  ) {
    super();
  }

  override async doStream(options: Options) {
    const text = JSON.stringify(options.prompt);
    if (text.includes(HELD)) await this.pass();
    // In the script, which is JSON in the JSON of the prompt.
    const script = text.replaceAll('\\"charge\\"', `\\"${this.tool}\\"`);
    return super.doStream({ ...options, prompt: JSON.parse(script) as Options["prompt"] });
  }
}
