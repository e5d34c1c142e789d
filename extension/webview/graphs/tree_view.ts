/**
 * The graphs as a tree for the keyboard and for screen readers, after ARIA's tree view pattern.
 *
 * Invariant: one row at a time is in the tab order. Open rows stay open when the report changes.
 */

import type { GraphPicture, GraphPlace } from "../../src/messages/page_types";
import { element } from "../page/dom";
import { type Row, treeOf } from "./words";

export function createTreeView(open: ((place: GraphPlace) => void) | null) {
  const root = element("ul", { class: "tree", role: "tree" });
  const opened = new Set<string>();
  let rows = new Map<string, Row>();
  let items = new Map<string, HTMLElement>();
  let selected = "";
  let typed = "";
  let typedAt = 0;

  function draw(picture: GraphPicture): void {
    const hadFocus = root.contains(document.activeElement);
    root.setAttribute("aria-label", `Graphs of ${picture.title}, in the order in which Dynamo reached them`);
    rows = new Map();
    items = new Map();
    const tree = treeOf(picture);
    root.replaceChildren(...tree.map((row, index) => itemOf(row, 1, index + 1, tree.length)));
    select(items.has(selected) ? selected : (tree[0]?.id ?? ""));
    if (hadFocus) {
      focus();
    }
  }

  function itemOf(row: Row, level: number, position: number, size: number): HTMLElement {
    const item = element("li", {
      role: "treeitem",
      tabindex: -1,
      "aria-level": level,
      "aria-posinset": position,
      "aria-setsize": size,
      "aria-label": row.text,
      "aria-selected": false,
    });
    const twisty = element("span", { class: "twisty", "aria-hidden": true });
    item.append(element("div", { class: "row" }, twisty, element("span", { class: "text" }, row.text)));
    rows.set(row.id, row);
    items.set(row.id, item);
    if (row.children.length > 0) {
      item.append(
        element(
          "ul",
          { role: "group" },
          ...row.children.map((child, index) => itemOf(child, level + 1, index + 1, row.children.length)),
        ),
      );
      item.setAttribute("aria-expanded", String(opened.has(row.id)));
    }
    item.addEventListener("click", (event) => {
      event.stopPropagation();
      select(row.id);
      focus();
      if (event.target === twisty || ((row.place === null || open === null) && row.leadsTo === null)) {
        toggle(row.id, !opened.has(row.id));
      } else {
        enter(row);
      }
    });
    item.addEventListener("focus", () => select(row.id));
    return item;
  }

  function select(id: string): void {
    const [old, item] = [items.get(selected), items.get(id)];
    old?.setAttribute("tabindex", "-1");
    old?.setAttribute("aria-selected", "false");
    item?.setAttribute("tabindex", "0");
    item?.setAttribute("aria-selected", "true");
    selected = id;
  }

  function focus(): void {
    items.get(selected)?.focus();
  }

  function toggle(id: string, toOpen: boolean): void {
    if ((rows.get(id)?.children.length ?? 0) > 0) {
      toOpen ? opened.add(id) : opened.delete(id);
      items.get(id)?.setAttribute("aria-expanded", String(toOpen));
    }
  }

  function enter(row: Row): void {
    if (row.leadsTo !== null) {
      move(row.leadsTo);
    } else if (row.place !== null) {
      open?.(row.place);
    }
  }

  function move(id: string | undefined): void {
    if (id !== undefined && items.has(id)) {
      select(id);
      focus();
    }
  }

  /** The visible rows, from the top. */
  function inSight(): readonly string[] {
    return [...rows.keys()].filter((id) => {
      const around = items.get(id)?.parentElement?.closest('[role="treeitem"]');
      return around === null || around?.getAttribute("aria-expanded") === "true";
    });
  }

  function parentOf(id: string): string | undefined {
    const around = items.get(id)?.parentElement?.closest('[role="treeitem"]');
    return [...items].find(([, item]) => item === around)?.[0];
  }

  function press(key: string): boolean {
    const seen = inSight();
    const at = seen.indexOf(selected);
    const row = rows.get(selected);
    const isOpen = opened.has(selected) && (row?.children.length ?? 0) > 0;
    const acts: Readonly<Record<string, () => void>> = {
      ArrowDown: () => move(seen[at + 1]),
      ArrowUp: () => move(seen[at - 1]),
      ArrowRight: () => (isOpen ? move(row?.children[0]?.id) : toggle(selected, true)),
      ArrowLeft: () => (isOpen ? toggle(selected, false) : move(parentOf(selected))),
      Home: () => move(seen[0]),
      End: () => move(seen.at(-1)),
      Enter: () => row && enter(row),
      " ": () => row && enter(row),
      "*": () => [...rows.keys()].map((id) => toggle(id, true)),
    };
    const act = acts[key] ?? (key.length === 1 ? () => find(key, seen, at) : undefined);
    act?.();
    return act !== undefined;
  }

  /** Typing goes to the next row with that prefix; a pause starts a new prefix. */
  function find(key: string, seen: readonly string[], at: number): void {
    const now = performance.now();
    typed = now - typedAt > 800 ? key : typed + key;
    typedAt = now;
    const from = typed.length === 1 ? at + 1 : at;
    const turned = [...seen.slice(from), ...seen.slice(0, from)];
    move(turned.find((id) => rows.get(id)?.text.toLowerCase().startsWith(typed.toLowerCase())));
  }

  root.addEventListener("keydown", (event) => {
    if (!event.ctrlKey && !event.metaKey && !event.altKey && press(event.key)) {
      event.preventDefault();
      event.stopPropagation();
    }
  });

  return { root, draw, focus };
}
