/**
 * A table of a page: columns that are given as data, and cells that go to lines.
 *
 * Invariant: built from text nodes only; a column of numbers has a heading.
 */

import type { PagePlace } from "../../src/messages/page_types";
import { button, element } from "../page/dom";
import * as words from "./words";

/** Goes to a line; null in an exported page, which has no editor. */
export type Open = ((place: PagePlace) => void) | null;

export type Cell = string | Node | readonly (string | Node)[];

export interface Column<T> {
  readonly title: string;
  readonly isNumber?: boolean;
  /** The column is omitted if this is false for all rows. */
  readonly isKnown?: (row: T) => boolean;
  readonly cell: (row: T) => Cell;
}

/** Columns that a narrow page has room for. */
const fewColumns = 3;

/** `instead` replaces all but the first cell of a row, unless it is null. */
export function table<T>(
  caption: string,
  all: readonly Column<T>[],
  rows: readonly T[],
  instead: (row: T) => Node | null = () => null,
): HTMLElement {
  const columns = all.filter(({ isKnown }) => isKnown === undefined || rows.some(isKnown));
  const heads = columns.map(({ title, isNumber }) =>
    element("th", { scope: "col", role: "columnheader", ...(isNumber ? { class: "number" } : {}) }, title),
  );
  const body = rows.map((row) => {
    const [first, ...others] = columns.map(({ cell, isNumber }, index) => {
      const made = cell(row);
      const parts = Array.isArray(made) ? (made as readonly (string | Node)[]) : [made as string | Node];
      const attributes = isNumber ? { class: "number" } : {};
      const title = columns[index]?.title ?? "";
      return index === 0
        ? element("th", { scope: "row", role: "rowheader", ...attributes }, ...parts)
        : element("td", { role: "cell", "data-title": title, ...attributes }, element("div", {}, ...parts));
    });
    const only = instead(row);
    const rest = only === null ? others : [element("td", { role: "cell", colspan: others.length }, only)];
    return element("tr", { role: "row" }, ...(first === undefined ? [] : [first]), ...rest);
  });
  // Where the page is narrow, the style shows the rows of a wide table as lists: the roles keep it a table.
  const made = element(
    "table",
    { role: "table", ...(columns.length > fewColumns ? { class: "wide-table" } : {}) },
    element("caption", {}, caption),
    element("thead", { role: "rowgroup" }, element("tr", { role: "row" }, ...heads)),
    element("tbody", { role: "rowgroup" }, ...body),
  );
  return element("div", { class: "scroll", role: "region", "aria-label": caption, tabindex: 0 }, made);
}

export function placeCell(place: PagePlace | null, open: Open): Node | string {
  if (place === null) {
    return words.unknown;
  }
  const name = words.placeOf(place);
  const code = element("code", { title: place.text }, place.text);
  if (open === null || place.uri === "") {
    return element("span", { class: "place" }, ...breakable(name), " ", code);
  }
  const link = button(name, `Go to ${name}`, () => open(place));
  link.replaceChildren(...breakable(name));
  link.classList.add("link");
  return element("span", { class: "place" }, link, " ", code);
}

/** A path that wraps after its folders, where the style allows it to wrap. */
function breakable(path: string): readonly (Node | string)[] {
  return path.split("/").flatMap((part, index) => (index === 0 ? [part] : ["/", element("wbr"), part]));
}

/** A second line of a cell, never wrapped in a column of numbers. */
export function small(text: string): HTMLElement | string {
  return text === "" ? "" : element("div", { class: "small" }, text);
}

export function sentence(text: string): HTMLElement | string {
  return text === "" ? "" : element("div", { class: "small sentence" }, text);
}
