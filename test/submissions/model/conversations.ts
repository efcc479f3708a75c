/** The conversations of the model: what was said in which thread, all of it in one list. */

import { type Entry, replyId } from "./entries.ts";

export class Talk {
  said: string[] = [];

  /** An isolated turn leaves no trace; what is said once more stays where it is. */
  add({ ask: { thread } }: Entry, messages: readonly string[]): void {
    if (thread === "isolated") return;
    const names = messages.map((id) => `${thread}/${id}`);
    this.said.push(...names.filter((name) => !this.said.includes(name)));
  }

  /** L5. Its messages and its reply are gone. */
  removeMessages({ id, ask: { thread }, messages }: Entry): void {
    const gone = [...messages, replyId(id)].map((name) => `${thread}/${name}`);
    this.said = this.said.filter((name) => !gone.includes(name));
  }

  has({ ask: { thread }, messages }: Entry): boolean {
    return messages.some((id) => this.said.includes(`${thread}/${id}`));
  }
}
