/**
 * What a section of a page is made of: its heading, texts, lists, foldable details and charts.
 *
 * Invariant: charts are drawn after their section is in the document.
 */

import { element } from "../page/dom";
import type { Chart } from "./chart";

/** A section, and its charts, which are drawn after it is in the document. */
export interface Section {
  readonly root: HTMLElement;
  readonly charts: readonly Chart[];
}

let sections = 0;

export function section(title: string, content: readonly (HTMLElement | Chart)[]): Section {
  sections += 1;
  const id = `section-${sections}`;
  const charts = content.filter((part) => "draw" in part);
  const parts = content.map((part) => ("draw" in part ? part.root : part));
  const root = element("section", { "aria-labelledby": id }, element("h2", { id }, title), ...parts);
  return { root, charts };
}

export function text(words: string): HTMLElement {
  return element("p", {}, words);
}

export function list(notes: readonly string[]): HTMLElement {
  return element("ul", { class: "notes" }, ...notes.map((note) => element("li", {}, note)));
}

/** `key` identifies the element across redraws, so that it stays open. */
export function details(key: string, title: string, content: Node): HTMLElement {
  return element("details", { "data-key": key }, element("summary", { "aria-label": title }, title), content);
}
