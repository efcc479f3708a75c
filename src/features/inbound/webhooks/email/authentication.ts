/** What the receiving server has found of SPF, DKIM and DMARC, and whether From is to be believed. Pure. */

import { parseResults } from "./authentication-results.ts";
import { type Header, headerOf } from "./mime.ts";

/** E.g. `pass`, `fail` or `none`; `none` also where the server has said nothing, or what it said is ambiguous. */
export type AuthenticationResults = {
  readonly spf: string;
  readonly dkim: string;
  readonly dmarc: string;
};

export type Authentication = AuthenticationResults & {
  /** Whether the domain of From has sent the e-mail: DMARC passes; without a DMARC policy, an aligned DKIM or SPF. */
  readonly isAuthentic: boolean;
  /** Set where the server has no result of SPF, DKIM or DMARC. */
  readonly isUnverified?: true;
};

const NONE: Authentication = { spf: "none", dkim: "none", dmarc: "none", isAuthentic: false };

/** A sender's address that no server has to quote. Others could end a comment or a value of the server's header. */
const PLAIN_SENDER = /^(?:[\w!#$%&'*+/?^`{|}~.=-]+@[\w.-]+)?$/;

/**
 * The findings of the server that has received the e-mail. Only the topmost header counts, and only that of `server`: a sender
 * can write any further ones.
 *
 * @param envelopeFrom the sender of the envelope
 * @param fromDomain the domain of the only address in From; undefined where there is none, or several
 */
export function authenticationOf(
  headers: readonly Header[],
  {
    server,
    envelopeFrom,
    fromDomain,
  }: {
    readonly server: string;
    readonly envelopeFrom: string;
    readonly fromDomain: string | undefined;
  },
): Authentication {
  const header = headerOf(headers, "authentication-results");
  const found = header === undefined ? undefined : parseResults(header);
  // Such a sender can have changed or hidden what the server wrote.
  if (!PLAIN_SENDER.test(envelopeFrom)) return NONE;
  if (found?.server !== server.toLowerCase()) return { ...NONE, isUnverified: true };
  const of = (method: string) => found.results.filter((each) => each.method === method);
  const dkim = of("dkim");
  const passed = dkim.filter(({ result }) => result === "pass");
  // The server also checks the name in HELO.
  const spf = of("spf").filter(({ properties }) => properties.has("smtp.mailfrom"));
  const dmarc = of("dmarc");
  const policy = dmarc.length === 1 ? dmarc[0] : undefined;
  const results = {
    spf: (spf.length === 1 && spf[0]?.result) || "none",
    dkim: passed[0]?.result ?? dkim[0]?.result ?? "none",
    dmarc: policy?.result ?? "none",
  };
  // Of a server that has only sealed or forwarded it.
  if (dmarc.length + dkim.length + of("spf").length === 0) return { ...NONE, isUnverified: true };
  const isFrom = policy?.properties.get("header.from") === fromDomain?.toLowerCase();
  if (fromDomain === undefined || !policy || !isFrom) return { ...results, isAuthentic: false };
  if (policy.result !== "none") return { ...results, isAuthentic: policy.result === "pass" };
  const signers = passed.map(({ properties }) => properties.get("header.d"));
  const mailFrom = spf[0]?.properties.get("smtp.mailfrom");
  const sender =
    results.spf === "pass" ? mailFrom?.slice(mailFrom.lastIndexOf("@") + 1) : undefined;
  const isAuthentic = [...signers, sender].some((domain) => isAligned(domain, fromDomain));
  return { ...results, isAuthentic };
}

/** Whether the domain is that of From, or one above it. A subdomain of From can belong to another owner, e.g. a customer of a host. */
function isAligned(domain: string | undefined, fromDomain: string): boolean {
  if (!domain?.includes(".")) return false;
  return `.${fromDomain.toLowerCase()}`.endsWith(`.${domain.toLowerCase()}`);
}
