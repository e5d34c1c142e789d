/**
 * The picture: boxes, which can be clicked and navigated with arrow keys, and the arrows between them.
 *
 * Invariant: one box at a time is in the tab order, and the focused box is visible.
 */

import type { GraphBox, GraphPicture, GraphPlace } from "../../src/messages/page_types";
import { drawing, element } from "../page/dom";
import {
  type Block,
  blocksOf,
  classOf,
  type DrawnLine,
  type Layout,
  labels,
  layOut,
  linesOf,
} from "./layout";
import { pictureLabel, type Step, spokenOf, step, tagOf } from "./words";

const steps: Readonly<Record<string, Step>> = {
  ArrowDown: "follow",
  ArrowUp: "back",
  ArrowRight: "next",
  ArrowLeft: "previous",
  Home: "first",
  End: "last",
};
const [smallest, largest] = [0.1, 4];
const wheelStep = 1.1;

export function createPictureView(
  open: ((place: GraphPlace) => void) | null,
  zoomed: (zoom: number) => void,
) {
  const canvas = element("div", { class: "canvas" });
  const paper = element("div", { class: "paper" }, canvas);
  const root = element("div", { class: "picture", role: "group" }, paper);
  let shown: GraphPicture | null = null;
  let boxes = new Map<string, HTMLElement>();
  let selected = "";
  let size = { width: 0, height: 0 };
  let zoom = 1;

  function draw(picture: GraphPicture): void {
    const hadFocus = root.contains(document.activeElement);
    shown = picture;
    root.setAttribute("aria-label", pictureLabel(picture.title, open !== null));
    boxes = new Map(picture.boxes.map((box) => [box.id, boxOf(box, picture)]));
    const blocks = blocksOf(picture.boxes);
    const groups = new Map(blocks.map((block) => [block.id, groupOf(block)]));
    canvas.replaceChildren(...groups.values());
    const pen = document.createElement("canvas").getContext("2d");
    if (pen !== null) {
      pen.font = getComputedStyle(canvas).font;
    }
    const made = layOut(
      blocks,
      linesOf(picture),
      (id) => ({ width: groups.get(id)?.offsetWidth ?? 0, height: groups.get(id)?.offsetHeight ?? 0 }),
      (text) => (pen?.measureText(text).width ?? text.length * 7) + 8,
    );
    for (const [id, { x, y }] of made.blocks) {
      const group = groups.get(id);
      if (group !== undefined) {
        group.style.left = `${x}px`;
        group.style.top = `${y}px`;
      }
    }
    canvas.prepend(linesIn(made));
    size = made;
    canvas.style.width = `${made.width}px`;
    canvas.style.height = `${made.height}px`;
    setZoom(zoom);
    select(boxes.has(selected) ? selected : (picture.boxes[0]?.id ?? ""));
    if (hadFocus) {
      focus();
    }
  }

  function boxOf(box: GraphBox, picture: GraphPicture): HTMLElement {
    const made = element(
      "div",
      {
        class: `box ${box.kind}${box.again ? " again" : ""}`,
        role: open === null ? "group" : "button",
        tabindex: -1,
        "data-id": box.id,
      },
      element("div", { class: "tag" }, tagOf(box)),
      element("div", { class: "title" }, box.title),
      ...(box.place === "" ? [] : [element("div", { class: "place" }, box.place)]),
      ...box.facts.map((fact) => element("div", { class: "fact" }, fact)),
      ...(box.members.length > 0 ? [element("div", { class: "fact" }, "The tree lists each of them.")] : []),
    );
    made.setAttribute("aria-label", spokenOf(box, picture));
    made.addEventListener("click", () => {
      select(box.id);
      open?.(box);
    });
    made.addEventListener("focus", () => select(box.id));
    return made;
  }

  function groupOf(block: Block): HTMLElement {
    const made = element("div", { class: block.boxes.length > 1 ? "block several" : "block" });
    if (block.boxes.length > 1) {
      const words = `Same frame, ${block.boxes.length} boxes`;
      made.append(element("div", { class: "caption" }, words));
    }
    made.append(...block.boxes.flatMap((box) => boxes.get(box.id) ?? []));
    return made;
  }

  function select(id: string): void {
    boxes.get(selected)?.setAttribute("tabindex", "-1");
    boxes.get(id)?.setAttribute("tabindex", "0");
    selected = id;
  }

  function focus(): void {
    const box = boxes.get(selected);
    box?.focus({ preventScroll: true });
    box?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  function setZoom(to: number): void {
    zoom = Math.min(largest, Math.max(smallest, to));
    canvas.style.transform = `scale(${zoom})`;
    paper.style.width = `${size.width * zoom}px`;
    paper.style.height = `${size.height * zoom}px`;
    zoomed(zoom);
  }

  /** The point of the picture that is under `x` and `y` of the view stays there. */
  function zoomAt(factor: number, x: number, y: number): void {
    const [left, top, old] = [root.scrollLeft + x, root.scrollTop + y, zoom];
    setZoom(zoom * factor);
    root.scrollLeft = (left * zoom) / old - x;
    root.scrollTop = (top * zoom) / old - y;
  }

  /** Makes all of it visible, at most at its natural size. */
  function fit(): void {
    if (size.width > 0 && root.clientWidth > 0) {
      setZoom(Math.min(1, root.clientWidth / size.width, root.clientHeight / size.height));
    }
  }

  /** Shows the top, as wide as the window: a box that is cut off at a side is not noticed. */
  function begin(): void {
    setZoom(root.clientWidth > 0 && size.width > 0 ? Math.min(1, root.clientWidth / size.width) : 1);
    boxes.get(selected)?.scrollIntoView({ block: "nearest", inline: "center" });
  }

  root.addEventListener("keydown", (event) => {
    const how = event.ctrlKey || event.metaKey || event.altKey ? undefined : steps[event.key];
    if (how !== undefined && shown !== null) {
      select(step(shown, selected, how));
      focus();
      event.preventDefault();
    } else if (event.key === "Enter" || event.key === " ") {
      const box = shown?.boxes.find(({ id }) => id === selected);
      if (box !== undefined) {
        open?.(box);
        event.preventDefault();
      }
    }
  });
  root.addEventListener(
    "wheel",
    (event) => {
      if (event.ctrlKey || event.metaKey) {
        const edge = root.getBoundingClientRect();
        const factor = event.deltaY < 0 ? wheelStep : 1 / wheelStep;
        zoomAt(factor, event.clientX - edge.left, event.clientY - edge.top);
        event.preventDefault();
      }
    },
    { passive: false },
  );
  root.addEventListener("pointerdown", (event) => {
    const onBox = event.target instanceof Element && event.target.closest(".box") !== null;
    if (!onBox && event.button === 0) {
      root.setPointerCapture(event.pointerId);
    }
  });
  root.addEventListener("pointermove", (event) => {
    if (root.hasPointerCapture(event.pointerId)) {
      root.scrollLeft -= event.movementX;
      root.scrollTop -= event.movementY;
    }
  });

  return {
    root,
    draw,
    focus,
    zoomBy: (factor: number) => zoomAt(factor, root.clientWidth / 2, root.clientHeight / 2),
    fit,
    begin,
  };
}

/** For the eye only: a box says in words how much it leads to, and the tree what. */
function linesIn(made: Layout): SVGSVGElement {
  const tip = drawing("path", { d: "M 0 0 L 8 4 L 0 8 z", class: "tip" });
  const marker = drawing(
    "marker",
    { id: "tip", viewBox: "0 0 8 8", refX: 8, refY: 4, markerWidth: 8, markerHeight: 8, orient: "auto" },
    tip,
  );
  const svg = drawing("svg", { "aria-hidden": true, width: made.width, height: made.height });
  svg.append(drawing("defs", {}, marker), ...made.lines.map(lineIn), ...made.lines.map(wordsOn));
  return svg;
}

function lineIn(line: DrawnLine): SVGPathElement {
  const names = `line ${classOf(line.kind)}`;
  return drawing("path", { d: curveThrough(line), class: names, "marker-end": "url(#tip)" });
}

function wordsOn(line: DrawnLine): SVGTextElement {
  return drawing("text", { x: line.label.x, y: line.label.y, class: "words" }, labels[line.kind]);
}

/** Straight at both ends, rounded between: each inner point pulls the curve towards itself. */
function curveThrough({ points }: DrawnLine): string {
  const [first, ...rest] = points;
  const last = rest.at(-1);
  if (first === undefined || last === undefined) {
    return "";
  }
  const parts = [`M ${first.x} ${first.y}`];
  for (const [index, point] of rest.slice(0, -1).entries()) {
    const next = rest[index + 1] ?? last;
    parts.push(`Q ${point.x} ${point.y} ${(point.x + next.x) / 2} ${(point.y + next.y) / 2}`);
  }
  return [...parts, `L ${last.x} ${last.y}`].join(" ");
}
