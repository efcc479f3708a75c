/** `perdure/email`: receives e-mail of Email Routing, accepted once and answered by the outbox. */

export { InvalidOptionError } from "../../../../core/options/options.ts";
export type { Arrival } from "../arrival.ts";
export type { AuthenticationResults } from "./authentication.ts";
export type { EmailAttachment, EmailBody } from "./body.ts";
export { type EmailHandler, type EmailOptions, email } from "./email.ts";
