/** Discord's interactions: https://docs.discord.com/developers/interactions/overview */

import type { ApprovalClicks } from "../click.ts";
import {
  aFunction,
  type Endpoint,
  type EndpointOptions,
  endpoint,
  type MaybeAgent,
} from "../preset.ts";
import { checkEd25519, checkTime } from "../verify.ts";

type DiscordUser = {
  readonly id: string;
  readonly username: string;
  readonly global_name?: string | null;
};

/** An interaction: a command, a click or a form. Pass a `schema` for more. */
export type DiscordBody = {
  readonly id: string;
  /** 2 command, 3 component, 4 autocomplete, 5 modal. */
  readonly type: number;
  readonly application_id: string;
  /** Valid for 15 minutes. */
  readonly token: string;
  readonly guild_id?: string;
  readonly channel_id?: string;
  /** In a server. */
  readonly member?: { readonly user: DiscordUser; readonly roles: readonly string[] };
  /** In a direct message. */
  readonly user?: DiscordUser;
  /** The message with the component. */
  readonly message?: { readonly id: string; readonly content?: string };
  readonly data?: {
    /** Of a command. */
    readonly name?: string;
    readonly options?: readonly {
      readonly name: string;
      readonly value?: string | number | boolean;
    }[];
    /** Of a component or a modal. */
    readonly custom_id?: string;
    readonly values?: readonly string[];
  };
};

/** Before any check of it. */
type Interaction = Partial<DiscordBody>;

type DiscordOptions<Body, Target> = Omit<EndpointOptions<Body, Target>, "secret"> & {
  /** The name of the binding in env that has the application's public key, in hex. Several for several applications. */
  readonly publicKey: string | readonly string[];
  /** Decides approvals by clicks on their buttons: `discordApprovals(mayDecide)`. Without it, `handle` gets these clicks. */
  readonly approvals?: ApprovalClicks;
};

const TYPES = ["", "ping", "command", "component", "autocomplete", "modal"];

/**
 * Receives interactions of Discord. The id is the interaction's. The type is `command`, `component`, `autocomplete` or
 * `modal`.
 *
 * Once an arrival is accepted, Discord gets a deferred answer, and `arrival.reply` writes the message in its place. Return
 * a Response from `handle` for another answer.
 */
export function discord<Target extends MaybeAgent, Body = DiscordBody>(
  options: DiscordOptions<Body, Target>,
): Endpoint {
  return endpoint(
    {
      name: "discord",
      // Discord waits for 3 seconds.
      timeLimit: 2_500,
      tolerance: 300_000,
      options: { approvals: aFunction },
      async verify(incoming) {
        const { headers, raw, secrets } = incoming;
        const time = headers.get("x-signature-timestamp");
        const verified = await checkEd25519({
          encoding: "hex",
          keys: secrets,
          message: [`${time}`, raw],
          signatures: [headers.get("x-signature-ed25519")],
        });
        return verified === true ? checkTime(time, incoming) : verified;
      },
      handshake: (body) =>
        // A webhook event has the type 1, too.
        (body as Interaction).type === 1 && !("event" in (body as object))
          ? Response.json({ type: PONG })
          : undefined,
      identify(body) {
        const { id, type = 0 } = body as Interaction;
        return { id, type: TYPES[type] ?? String(type) };
      },
      reply(body) {
        const { application_id: application, token: interaction } = body as Interaction;
        return application && interaction
          ? { kind: "discord", application, interaction }
          : undefined;
      },
      answer({ status, verdict }, body, arrival) {
        if (status !== 200) return undefined;
        const type = TYPES[(body as Interaction).type ?? 0];
        if (type === "autocomplete") return answer(CHOICES, { choices: [] });
        const mayFollow = verdict !== "filtered" && !arrival?.click;
        // The person sees "thinking..." until the reply replaces it.
        if (mayFollow) return answer(DEFERRED_MESSAGE);
        return type === "component" ? answer(DEFERRED_UPDATE) : onlyToThem("Nothing was started.");
      },
    },
    options,
    ["publicKey"],
  );
}

// https://docs.discord.com/developers/interactions/receiving-and-responding#interaction-response-object-interaction-callback-type
const PONG = 1;
const MESSAGE = 4;
const DEFERRED_MESSAGE = 5;
const DEFERRED_UPDATE = 6;
export const UPDATE = 7;
const CHOICES = 8;
const EPHEMERAL = 64;

export function answer(type: number, data?: object): Response {
  return Response.json({ type, data });
}

export function onlyToThem(content: string): Response {
  return answer(MESSAGE, { content, flags: EPHEMERAL });
}
