/**
 * The picture of a target's graphs, as the server sends it, and the messages between its page and the extension.
 *
 * Invariant: types only, so that the bundle of the page has nothing of VS Code in it.
 */

import type { DrawMessage, ReadyMessage } from "../webview_messages";

export interface GraphTarget {
  readonly uri: string;
  /** Empty for the `__main__` block; null for the only target of the file. */
  readonly target: string | null;
}

export interface LineRange {
  readonly start: { readonly line: number; readonly character: number };
  readonly end: { readonly line: number; readonly character: number };
}

/** The current position of something; without a URI, an edit removed it. */
export interface GraphPlace {
  /** For example `model.py:12`. */
  readonly place: string;
  readonly uri: string | null;
  readonly range: LineRange | null;
}

export interface GraphMember extends GraphPlace {
  readonly label: string;
}

export type BoxKind = "target" | "graph" | "empty" | "eager" | "break" | "more";
export type ArrowKind = "calls" | "breaks" | "goes on" | "compiled again" | "runs in eager" | "because of";

export interface GraphBox extends GraphPlace {
  readonly id: string;
  readonly kind: BoxKind;
  /** Dynamo's id of the compile, or the code of the break. */
  readonly name: string;
  readonly title: string;
  readonly facts: readonly string[];
  /** The same for all boxes of one frame. */
  readonly frame: string | null;
  readonly again: boolean;
  /** How many boxes were folded into this one. */
  readonly count: number;
  /** The first of the folded boxes. */
  readonly members: readonly GraphMember[];
}

export interface GraphArrow {
  readonly start: string;
  readonly end: string;
  readonly kind: ArrowKind;
}

export interface OfferedTarget {
  readonly uri: string;
  readonly target: string;
  readonly label: string;
}

export interface GraphPicture {
  readonly found: boolean;
  readonly title: string;
  readonly description: string;
  /** What to do, while there is no picture. */
  readonly message: string;
  readonly boxes: readonly GraphBox[];
  readonly arrows: readonly GraphArrow[];
  readonly targets: readonly OfferedTarget[];
}

/** To the page. */
export type DrawGraphs = DrawMessage<GraphTarget, GraphPicture>;

/** From the page. */
export type ViewMessage =
  | ReadyMessage
  | { readonly type: "open"; readonly uri: string; readonly range: LineRange }
  | { readonly type: "choose"; readonly target: OfferedTarget }
  | { readonly type: "run" };

/** What VS Code keeps of the page across a reload. */
export interface ViewState extends GraphTarget {
  readonly mode: "picture" | "tree";
}
