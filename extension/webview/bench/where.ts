/**
 * Where the wall time goes, without a window: parts laid end to end, small ones of a kind as one.
 *
 * Invariant: segments add up to what they are made of, and none overlaps another.
 */

import type { WallPart } from "../../src/bench/messages";

export interface Segment {
  readonly kind: string;
  readonly start: number;
  readonly end: number;
  /** More than one where they are too small to be seen alone. */
  readonly parts: readonly WallPart[];
}

/** Below this part of all, a part is drawn together with its like. */
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

/** Of the server's kinds; each has a colour of its own on every page. */
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

/** Of a backend that is not Inductor; the colours of what Inductor has instead. */
const instead: Readonly<Record<string, string>> = { kernel_backend: "kernel", backend: "eager" };

export function colourIndex(kind: string): number {
  const at = known.indexOf(instead[kind] ?? kind);
  return at === -1 ? known.length - 1 : at;
}
