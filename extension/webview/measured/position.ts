/**
 * The selected item of a chart, restored when the chart is redrawn. Does not use the DOM.
 *
 * Invariant: an item is identified by its `key` and its rank among items with that key, not by its index, because new
 * times reorder items. If no item has the key, as after an edit of a line, the index counts in a chart of the same size.
 */

export interface Keyed {
  /** The same in each drawing, without times; several items may share it. */
  readonly key: string;
}

export interface Position {
  readonly key: string;
  /** The rank among the items with this key. */
  readonly nth: number;
  readonly index: number;
  readonly count: number;
}

/** Null if no item is selected. */
export function positionOf(items: readonly Keyed[], index: number): Position | null {
  const item = items[index];
  if (item === undefined) {
    return null;
  }
  const nth = items.slice(0, index).filter(({ key }) => key === item.key).length;
  return { key: item.key, nth, index, count: items.length };
}

/** The current index of that item; -1 if it is gone. */
export function indexOf(items: readonly Keyed[], position: Position): number {
  const same = items.flatMap(({ key }, index) => (key === position.key ? [index] : []));
  return same[position.nth] ?? same.at(-1) ?? (items.length === position.count ? position.index : -1);
}
