/** `perdure/streams`: submissions, threads and approvals over HTTP, for browsers. */

export { type FollowEvent, type ReplyPart, readFollowed } from "./events.ts";
export { type Followed, type StreamsOptions, streams } from "./handler.ts";
