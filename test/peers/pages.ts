/** What the documentation of Think says, on one line for each page. */

import index from "../../node_modules/@cloudflare/think/docs/index.md?raw";
import hooks from "../../node_modules/@cloudflare/think/docs/lifecycle-hooks.md?raw";
import submissions from "../../node_modules/@cloudflare/think/docs/programmatic-submissions.md?raw";
import workflows from "../../node_modules/@cloudflare/think/docs/workflows.md?raw";

const oneLine = (page: string) => page.replaceAll(/\s+/g, " ");

export const pages = {
  "index.md": oneLine(index),
  "lifecycle-hooks.md": oneLine(hooks),
  "programmatic-submissions.md": oneLine(submissions),
  "workflows.md": oneLine(workflows),
};
