/**
 * The segments of the wall time: parts end to end, with small parts of one kind combined. Does not use the DOM.
 *
 * Invariant: the segments add up to the parts and do not overlap.
 */

import type { WallPart } from "../../src/messages/page_types";

export interface Segment {
  readonly kind: string;
  readonly start: number;
  readonly end: number;
  /** More than one if each is too small to be visible. */
  readonly parts: readonly WallPart[];
}

/** A part below this share of the total is combined with others of its kind. */
const smallest = 0.004;

export function segmentsOf(parts: readonly WallPart[]): readonly Segment[] {
  const total = parts.reduce((sum, { us }) => sum + us, 0);
  const groups: WallPart[][] = [];
  for (const kind of kindsOf(parts)) {
    const ofKind = parts.filter((part) => part.kind === kind && part.us > 0);
    const large = ofKind.filter(({ us }) => us >= total * smallest);
    const small = ofKind.filter(({ us }) => us < total * smallest);
    groups.push(...large.map((part) => [part]), ...(small.length > 0 ? [small] : []));
  }
  let start = 0;
  return groups.map((group) => {
    const end = start + group.reduce((sum, { us }) => sum + us, 0);
    const segment = { kind: group[0]?.kind ?? "", start, end, parts: group };
    start = end;
    return segment;
  });
}

/** In the order of the server, which puts kernels first. */
export function kindsOf(parts: readonly WallPart[]): readonly string[] {
  return [...new Set(parts.map(({ kind }) => kind))];
}

/** The server's kinds in the order of their colors, which are the same on every page. */
const known = [
  "kernel",
  "launch",
  "kernel_eager",
  "eager",
  "sync",
  "guards",
  "wrapper",
  "kernel_copy",
  "copy",
  "host",
  "unknown",
];

/** Kinds of backends other than Inductor, with the kinds of Inductor whose colors they use. */
const instead: Readonly<Record<string, string>> = { kernel_backend: "kernel", backend: "eager" };

export function colorIndex(kind: string): number {
  const at = known.indexOf(instead[kind] ?? kind);
  return at === -1 ? known.length - 1 : at;
}
