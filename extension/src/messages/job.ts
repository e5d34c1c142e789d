/**
 * The messages between a job's page and the extension.
 *
 * Invariant: types only, so that the bundle of the page contains nothing of VS Code.
 */

import type { JobPage, PagePlace } from "./page_types";
import type { DrawMessage, ReadyMessage } from "./webview";

/** What a page shows: `target` is the id of the job, `uri` the log or folder that it was opened from. */
export interface JobShown {
  readonly uri: string;
  readonly target: string;
  /** Id of the job that it is compared with; null for none. */
  readonly against: string | null;
}

/** To the page. */
export type DrawJob = DrawMessage<JobShown, JobPage>;

/** From the page. */
export type JobMessage =
  | ReadyMessage
  | { readonly type: "open"; readonly place: PagePlace }
  | { readonly type: "compare"; readonly against: string | null }
  /** Asks for other logs to compare with. */
  | { readonly type: "compareOther" }
  | { readonly type: "close" }
  /** Opens the logs of a closed job again. */
  | { readonly type: "reopen" };
