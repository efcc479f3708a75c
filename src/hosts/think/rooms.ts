/** Where the layers of a Think agent, and what is added to it, find its rooms. Loads nothing of Think. */

/** A symbol, so that no member of an app's class can have the same name. */
export const CAPABILITIES: unique symbol = Symbol("perdure.rooms");
