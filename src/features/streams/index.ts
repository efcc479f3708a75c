/** `perdure/streams`: submissions, threads and approvals over HTTP, for browsers. */

export { type FollowOptions, InvalidFollowError } from "./cursor.ts";
export { type FollowEvent, type ReplyPart, readFollowed } from "./events.ts";
export { type FollowerSettings, followers, TooManyFollowersError } from "./followers.ts";
export { type Followed, type StreamsOptions, streams } from "./handler.ts";
