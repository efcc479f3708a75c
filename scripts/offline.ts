/**
 * The environment variables that keep Wrangler, Miniflare and workerd off the network: no request for the `cf` object, no
 * metrics, no check for a newer version. Every script that starts one of them passes them on.
 */
export const offline: NodeJS.ProcessEnv = {
  ...process.env,
  CLOUDFLARE_CF_FETCH_ENABLED: "false",
  WRANGLER_HIDE_BANNER: "true",
  WRANGLER_SEND_ERROR_REPORTS: "false",
  WRANGLER_SEND_METRICS: "false",
};
