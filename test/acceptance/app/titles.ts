/** Titles of the hosts, also for Node, where the hosts themselves cannot be imported. */

const AGENTS = ["DurableThink", "DurableAgent", "DurableChatAgent"] as const;

export const HOST_TITLES: readonly string[] = [
  ...AGENTS,
  "durable()",
  ...AGENTS.map((title) => `sub-agent of ${title}`),
];

export const NESTED_TITLES: readonly string[] = AGENTS.map(
  (title) => `sub-agent of a sub-agent of ${title}`,
);
