/**
 * The messages between the page of a target's graphs and the extension.
 *
 * Invariant: types only, so that the bundle of the page has nothing of VS Code in it.
 */

import type { GraphPicture, LineRange } from "./page_types";
import type { DrawMessage, ReadyMessage } from "./webview";

export interface GraphTarget {
  readonly uri: string;
  /** Empty for the `__main__` block; null for the only target of the file. */
  readonly target: string | null;
}

/** To the page. */
export type DrawGraphs = DrawMessage<GraphTarget, GraphPicture>;

/** From the page. */
export type ViewMessage =
  | ReadyMessage
  | { readonly type: "open"; readonly uri: string; readonly range: LineRange }
  | { readonly type: "choose"; readonly target: GraphTarget }
  | { readonly type: "run" };

/** What VS Code keeps of the page across a reload. */
export interface ViewState extends GraphTarget {
  readonly mode: "picture" | "tree";
}
