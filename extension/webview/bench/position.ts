/**
 * Where the arrow keys are in a chart, without a window: found again when the same chart is drawn anew.
 *
 * Invariant: an item is known by its `key` among those of the same key, not by its number: new times put items into
 * another order. Where none has the key, as after an edit of a line, it is the same number in a chart of as many items.
 */

export interface Keyed {
  /** The same in each drawing, and without a time in it; several items may have one. */
  readonly key: string;
}

export interface Position {
  readonly key: string;
  /** Which of the items of this key. */
  readonly nth: number;
  readonly index: number;
  readonly count: number;
}

/** Null where the keys are at no item. */
export function positionOf(items: readonly Keyed[], index: number): Position | null {
  const item = items[index];
  if (item === undefined) {
    return null;
  }
  const nth = items.slice(0, index).filter(({ key }) => key === item.key).length;
  return { key: item.key, nth, index, count: items.length };
}

/** The number of that item by now; -1 where it is none of these. */
export function indexOf(items: readonly Keyed[], position: Position): number {
  const same = items.flatMap(({ key }, index) => (key === position.key ? [index] : []));
  return same[position.nth] ?? same.at(-1) ?? (items.length === position.count ? position.index : -1);
}
