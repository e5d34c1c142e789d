/**
 * The messages between a benchmark's page and the extension.
 *
 * Invariant: types only, so that the bundle of the page contains nothing of VS Code.
 */

import type { MeasuredPage, PagePlace } from "./page_types";
import type { DrawMessage, ReadyMessage } from "./webview";

export interface BenchTarget {
  readonly uri: string;
  /** Empty for the file's `__main__` block. */
  readonly target: string;
}

/** Runs of a target by their ids in its history; null for the newest run, and for no comparison. */
export interface BenchShown extends BenchTarget {
  readonly run: string | null;
  readonly with: string | null;
}

export type ExportFormat = "json" | "csv" | "html";

/** To the page. */
export type DrawPage = DrawMessage<BenchShown, MeasuredPage>;

/** From the page. */
export type PageMessage =
  | ReadyMessage
  | { readonly type: "open"; readonly place: PagePlace }
  | { readonly type: "benchmark" }
  | { readonly type: "cancel" }
  | { readonly type: "forget"; readonly run: string }
  | { readonly type: "choose"; readonly run: string | null; readonly with: string | null }
  /** Asks for an exported file to compare with. */
  | { readonly type: "chooseFile" }
  | { readonly type: "export"; readonly format: ExportFormat }
  /** `data` is a data URL of a PNG. */
  | { readonly type: "picture"; readonly name: string; readonly data: string };

/** The state of the page that VS Code keeps across a reload. */
export interface PageState extends BenchShown {
  /** The configuration whose profile is shown; null for the default choice. */
  readonly profile: string | null;
}
