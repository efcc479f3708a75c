/** `perdure/replies`: destinations of the outbox that send a message to a person. */

export { InvalidOptionError } from "../../core/options/options.ts";
export { type DiscordDestination, discord } from "./discord.ts";
export { type EmailDestination, email } from "./email.ts";
export { type GithubCommentDestination, githubComment } from "./github-comment.ts";
export type { ProviderApis } from "./provider.ts";
export { type Replies, type ReplyDestination, type ReplyOptions, replies } from "./replies.ts";
export { type SlackDestination, slack } from "./slack.ts";
export { type TelegramDestination, telegram } from "./telegram.ts";
