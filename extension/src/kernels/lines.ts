/**
 * Which lines of one text belong to a line of the other.
 *
 * Invariant: lines are 0-based and both ends of a range belong to it. Nothing of VS Code is imported.
 */

import type { KernelLink } from "../messages/server_types";

export interface LineRange {
  readonly first: number;
  readonly last: number;
}

/** The lines of `uri` that line `line` of the generated text was generated from; adjacent lines are one range. */
export function sourceLines(links: readonly KernelLink[], line: number, uri: string): readonly LineRange[] {
  const found = links
    .filter((link) => link.uri === uri && link.first <= line && line <= link.last)
    .flatMap((link) => link.lines);
  return joined(found.map((one) => ({ first: one, last: one })));
}

/** The lines of the generated text that were generated from lines `first` to `last` of `uri`. */
export function generatedLines(
  links: readonly KernelLink[],
  { first, last }: LineRange,
  uri: string,
): readonly LineRange[] {
  return joined(
    links.filter((link) => link.uri === uri && link.lines.some((line) => first <= line && line <= last)),
  );
}

function joined(ranges: readonly LineRange[]): readonly LineRange[] {
  const found: { first: number; last: number }[] = [];
  for (const { first, last } of ranges.toSorted((left, right) => left.first - right.first)) {
    const before = found.at(-1);
    if (before !== undefined && first <= before.last + 1) {
      before.last = Math.max(before.last, last);
    } else {
      found.push({ first, last });
    }
  }
  return found;
}
