/**
 * What the picture of graphs is made of, as the server sends it, and what its window and the extension tell each other.
 *
 * Invariant: types only, so that the window's own bundle has nothing of VS Code in it.
 */

export interface GraphTarget {
  readonly uri: string;
  /** Empty for the file's `__main__` block; null for the only target that there is. */
  readonly target: string | null;
}

export interface LineRange {
  readonly start: { readonly line: number; readonly character: number };
  readonly end: { readonly line: number; readonly character: number };
}

/** Where something is now; without a URI it is nowhere any more. */
export interface GraphPlace {
  /** As `model.py:12`. */
  readonly place: string;
  readonly uri: string | null;
  readonly range: LineRange | null;
}

export interface GraphMember extends GraphPlace {
  readonly label: string;
}

export type BoxKind = "target" | "graph" | "empty" | "eager" | "break" | "more";
export type ArrowKind = "calls" | "breaks" | "goes on" | "compiled again" | "left to eager" | "because of";

export interface GraphBox extends GraphPlace {
  readonly id: string;
  readonly kind: BoxKind;
  /** Dynamo's id of the compile, or the code of the break. */
  readonly name: string;
  readonly title: string;
  readonly facts: readonly string[];
  /** Boxes of one frame have the same. */
  readonly frame: string | null;
  readonly again: boolean;
  /** How many it stands for. */
  readonly count: number;
  /** What was folded into it, the first of them. */
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
  /** Where there is no picture: what to do. */
  readonly message: string;
  readonly boxes: readonly GraphBox[];
  readonly arrows: readonly GraphArrow[];
  readonly targets: readonly OfferedTarget[];
}

/** To the window. */
export interface DrawMessage {
  readonly type: "draw";
  readonly of: GraphTarget;
  readonly picture: GraphPicture;
}

/** From the window. */
export type ViewMessage =
  | { readonly type: "ready" }
  | { readonly type: "open"; readonly uri: string; readonly range: LineRange }
  | { readonly type: "choose"; readonly target: OfferedTarget }
  | { readonly type: "run" };

/** What VS Code keeps of the window over a reload. */
export interface ViewState extends GraphTarget {
  readonly mode: "picture" | "tree";
}
