/** Discord's interactions: https://docs.discord.com/developers/interactions/overview */

import type { Json } from "../../core/json.ts";
import {
  type ButtonApproval,
  type ButtonOptions,
  type ClickOptions,
  type ClickResult,
  checkButton,
  DECISIONS,
  decisionOf,
  handleClick,
  idOf,
  LABELS,
  personOf,
} from "../click.ts";
import type { ApprovalClick, InboundDelivery } from "../delivery.ts";
import { aFunction, type Endpoint, type EndpointOptions, endpoint } from "../preset.ts";
import { checkEd25519, checkTime, concat } from "../verify.ts";

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

export type DiscordOptions<Body, Target> = Omit<EndpointOptions<Body, Target>, "secret"> &
  ClickOptions<Body> & {
    /** The name of the binding in env that has the application's public key, in hex. Several for several applications. */
    readonly publicKey: string | readonly string[];
  };

const PING = 1;
const COMMAND = 2;
const COMPONENT = 3;
const AUTOCOMPLETE = 4;
const TYPES: Readonly<Record<number, string>> = {
  [COMMAND]: "command",
  [COMPONENT]: "component",
  [AUTOCOMPLETE]: "autocomplete",
  5: "modal",
};

/**
 * Receives interactions of Discord. The id is the interaction's. The type is `command`, `component`, `autocomplete` or
 * `modal`.
 *
 * Once a delivery is accepted, Discord gets a deferred answer, and `delivery.reply` writes the message in its place. Return
 * a Response from `handle` for another answer.
 */
export function discord<Target, Body = DiscordBody>(
  options: DiscordOptions<Body, Target>,
): Endpoint {
  return endpoint(
    {
      name: "discord",
      // Discord waits for 3 seconds.
      timeLimit: 2_500,
      tolerance: 300_000,
      secretOption: "publicKey",
      options: { mayDecide: aFunction },
      async verify({ headers, raw, secrets, now, tolerance }) {
        const time = headers.get("x-signature-timestamp");
        const verified = await checkEd25519({
          encoding: "hex",
          publicKeys: secrets,
          message: concat(time ?? "", raw),
          signature: headers.get("x-signature-ed25519"),
        });
        return verified === true ? checkTime(time, { now, tolerance }) : verified;
      },
      handshake: (body) =>
        (body as Interaction).type === PING ? Response.json({ type: PONG }) : undefined,
      identify: (body) => {
        const { id, type } = body as Interaction;
        return { id, type: (type && TYPES[type]) || String(type) };
      },
      reply: (body) => {
        const { application_id: application, token: interaction } = body as Interaction;
        return application && interaction
          ? { kind: "discord", application, interaction }
          : undefined;
      },
      click: (body) => clickOf(body as Interaction),
      handle: (delivery, agent) => handleClick(delivery, agent, options, answerClick),
      answer: ({ status, verdict }, body, delivery) =>
        status === 200
          ? Response.json(deferred(body as Interaction, verdict === "filtered", delivery?.click))
          : undefined,
    },
    options,
  );
}

// https://docs.discord.com/developers/interactions/receiving-and-responding#interaction-response-object-interaction-callback-type
const PONG = 1;
const MESSAGE = 4;
const DEFERRED_MESSAGE = 5;
const DEFERRED_UPDATE = 6;
const UPDATE = 7;
const CHOICES = 8;
const EPHEMERAL = 64;
const COMPONENTS_V2 = 32_768;

/** The person sees "thinking..." until the reply replaces it, so only where a reply may follow. */
function deferred({ type }: Interaction, isFiltered: boolean, click?: ApprovalClick): object {
  if (type === AUTOCOMPLETE) return { type: CHOICES, data: { choices: [] } };
  if (type === COMPONENT && (isFiltered || click)) return { type: DEFERRED_UPDATE };
  if (isFiltered) return onlyToThem("Nothing was started.");
  return { type: DEFERRED_MESSAGE };
}

function onlyToThem(content: string): object {
  return { type: MESSAGE, data: { content, flags: EPHEMERAL, allowed_mentions: { parse: [] } } };
}

/** `perdure:grant:<approvalId>:<agent>`. */
const BUTTON = /^(perdure:\w+):([^:]+):(.*)$/s;

function clickOf({ data, member, user = member?.user }: Interaction): ApprovalClick | undefined {
  const [, id, approvalId, agent] = BUTTON.exec(data?.custom_id ?? "") ?? [];
  const decision = decisionOf(id);
  if (!decision || approvalId === undefined || !user) return undefined;
  return { approvalId, decision, agent, by: personOf("discord", user.id, user.username) };
}

type Row = { readonly components?: readonly { readonly custom_id?: string }[] };
type ClickBody = Interaction & {
  readonly message?: {
    readonly content?: string;
    readonly flags?: number;
    readonly components?: readonly Row[];
  };
};

/** Of a message's text. */
const MAX_TEXT = 2_000;

function answerClick(delivery: InboundDelivery, { text, isDecided }: ClickResult): Response {
  const { message, data } = delivery.body as ClickBody;
  // A message of the second version of components has no text.
  const canUpdate = isDecided && message && !((message.flags ?? 0) & COMPONENTS_V2);
  if (!canUpdate) return Response.json(onlyToThem(text));
  const rows = message.components ?? [];
  const others = rows.filter(
    ({ components }) => !components?.some(({ custom_id }) => custom_id === data?.custom_id),
  );
  const content = [message.content, text].filter(Boolean).join("\n").slice(-MAX_TEXT);
  const updated = { content, components: others, allowed_mentions: { parse: [] } };
  return Response.json({ type: UPDATE, data: updated });
}

/** Of a button's `custom_id`. https://docs.discord.com/developers/components/reference#anatomy-of-a-component-custom-id */
const MAX_ID = 100;

/**
 * The components of a Discord message that asks for an approval: two buttons. Put them into a message whose `content` says
 * what is asked. Clicks arrive at the receiver of `discord()`.
 *
 * A button gives no payload: for an approval with a `schema`, use a form of your own.
 *
 * @throws InvalidOptionError for a name of an agent that is too long: Discord's limit leaves 48 characters
 */
export function approvalComponents(
  approval: Pick<ButtonApproval, "approvalId">,
  { agent }: ButtonOptions,
): Json[] {
  const buttons = DECISIONS.map((decision) => {
    const custom_id = `${idOf(decision)}:${approval.approvalId}:${agent}`;
    checkButton(custom_id, MAX_ID);
    return { type: 2, style: STYLES[decision], label: LABELS[decision], custom_id };
  });
  return [{ type: 1, components: buttons }];
}

/** Green and red. */
const STYLES = { grant: 3, reject: 4 } as const;
