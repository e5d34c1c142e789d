/**
 * Where boxes and arrows lie: dagre's layers, from the top down.
 *
 * Invariant: boxes of one frame are one block, one under the other, so that recompilations stand with what they
 * repeat; every arrow between two blocks is drawn once for each kind. Sizes are pixels and come from the caller.
 */

import { type EdgeLabel, Graph, type GraphLabel, layout, type NodeLabel } from "@dagrejs/dagre";
import type { ArrowKind, GraphBox, GraphPicture } from "../../src/messages/page_types";

/** The boxes of one frame. */
export interface Block {
  readonly id: string;
  readonly boxes: readonly GraphBox[];
}

export interface Line {
  readonly start: string;
  readonly end: string;
  readonly kind: ArrowKind;
}

export interface Size {
  readonly width: number;
  readonly height: number;
}

export interface Point {
  readonly x: number;
  readonly y: number;
}

export interface DrawnLine extends Line {
  readonly points: readonly Point[];
  /** The middle of its label. */
  readonly label: Point;
}

export interface Layout extends Size {
  /** Of each block, its upper left corner. */
  readonly blocks: ReadonlyMap<string, Point>;
  readonly lines: readonly DrawnLine[];
}

const margin = 16;
const labelHeight = 16;

export function blocksOf(boxes: readonly GraphBox[]): readonly Block[] {
  const found = new Map<string, GraphBox[]>();
  for (const box of boxes) {
    const id = box.frame ?? box.id;
    found.set(id, [...(found.get(id) ?? []), box]);
  }
  return [...found].map(([id, members]) => ({ id, boxes: members }));
}

/** Arrows between blocks. Within a block, the texts and the order of the boxes show the relation. */
export function linesOf(picture: GraphPicture): readonly Line[] {
  const blocks = new Map(picture.boxes.map((box) => [box.id, box.frame ?? box.id]));
  const found = new Map<string, Line>();
  for (const arrow of picture.arrows) {
    const [start, end, kind] = [blocks.get(arrow.start), blocks.get(arrow.end), arrow.kind];
    if (start !== undefined && end !== undefined && start !== end) {
      found.set(`${start}\n${end}\n${kind}`, { start, end, kind });
    }
  }
  return [...found.values()];
}

/** The labels of arrows; empty for an arrow to a break. */
export const labels: Readonly<Record<ArrowKind, string>> = {
  calls: "calls",
  breaks: "", // the box of the break says it
  "goes on": "continues",
  "compiled again": "recompiled",
  "runs in eager": "runs eagerly",
  "because of": "because of",
};

/** The class of an arrow's line, which page.css styles. */
export const classOf = (kind: ArrowKind): string => kind.replaceAll(" ", "-");

export function layOut(
  blocks: readonly Block[],
  lines: readonly Line[],
  sizeOf: (block: string) => Size,
  widthOfLabel: (text: string) => number,
): Layout {
  const graph = new Graph<GraphLabel, NodeLabel, EdgeLabel>({ multigraph: true });
  graph.setGraph({
    rankdir: "TB",
    nodesep: 32,
    ranksep: 28,
    edgesep: 16,
    marginx: margin,
    marginy: margin,
  });
  for (const { id } of blocks) {
    graph.setNode(id, { ...sizeOf(id) });
  }
  for (const { start, end, kind } of lines) {
    const text = labels[kind];
    const size = text === "" ? { width: 0, height: 0 } : { width: widthOfLabel(text), height: labelHeight };
    graph.setEdge(start, end, { ...size, labelpos: "c" }, kind);
  }
  layout(graph);
  const corners = blocks.map(({ id }): [string, Point] => {
    const { x = 0, y = 0, width, height } = graph.node(id);
    return [id, { x: x - width / 2, y: y - height / 2 }];
  });
  const drawn = lines.map((line): DrawnLine => {
    const { points = [], x = 0, y = 0 } = graph.edge(line.start, line.end, line.kind);
    return { ...line, points, label: { x, y } };
  });
  const { width = 0, height = 0 } = graph.graph();
  return { width, height, blocks: new Map(corners), lines: drawn };
}
