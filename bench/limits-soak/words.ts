/** What the driver, the provider and the worker of the soak of limits say to each other. */

/** What the provider allows, and the app declares. */
export type Allowed = {
  readonly requestsPerMinute: number;
  readonly tokensPerMinute: number;
};

/** Tokens of each answer of the provider. */
export const USAGE = { input: 40, output: 20 } as const;

/** The id of a turn, which is also the text of its message. */
export const TURN = /^t\d+-\d+$/;

/** A turn of the soak: two calls of the model, with a tool call between them. */
export type Turn = { readonly agent: string; readonly id: string };

/** What an agent has at the end. */
export type Look = {
  readonly agent: string;
  readonly submissions: readonly {
    readonly id: string;
    readonly status: string;
    readonly attempts: number;
    readonly error: string | null;
    readonly waitingFor: string | null;
  }[];
  /** How often the tool of each turn had its effect. */
  readonly effects: readonly { readonly turn: string; readonly times: number }[];
};
