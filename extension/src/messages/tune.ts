/**
 * The messages between a search's page and the extension.
 *
 * Invariant: types only, so that the bundle of the page contains nothing of VS Code.
 */

import type { BenchTarget } from "./bench";
import type { TunedPage } from "./page_types";
import type { DrawMessage, ReadyMessage } from "./webview";

/** To the page. */
export type DrawTuning = DrawMessage<BenchTarget, TunedPage>;

/** From the page. */
export type TuneMessage =
  | ReadyMessage
  /** Starts the search again. */
  | { readonly type: "tune" }
  | { readonly type: "cancel" }
  /** Copies the decision as code. */
  | { readonly type: "copy" }
  /** Opens the tuned file. */
  | { readonly type: "openFile" }
  /** Applies the fixes that the decision needs. */
  | { readonly type: "applyFixes" };
