/**
 * The page with the graphs of a target: a head, and the picture or the tree, or what to do while there is no report.
 *
 * Invariant: it draws what it is sent, or what a file with the page carries. It keeps its settings in VS Code's state,
 * so that a page that was hidden or reloaded comes back unchanged.
 */

import type { DrawGraphs, GraphTarget, ViewMessage, ViewState } from "../../src/messages/graphs";
import type { GraphPicture, GraphPlace } from "../../src/messages/page_types";
import { button, element } from "../page/dom";
import { acquireHost, type Host } from "../page/host";
import { createPictureView } from "./picture_view";
import { createTreeView } from "./tree_view";

const host = acquireHost<ViewMessage, ViewState>();
const zoomStep = 1.25;
let shown: GraphPicture | null = null;
let target: GraphTarget | null = host?.getState() ?? null;
let mode: ViewState["mode"] =
  host?.getState()?.mode ??
  (document.body.classList.contains("vscode-using-screen-reader") ? "tree" : "picture");
let isFirst = true;

const open = host === null ? null : openIn(host);
document.body.classList.toggle("opens", open !== null);

function openIn(editor: Host<ViewMessage, ViewState>) {
  return ({ uri, range }: GraphPlace): void => {
    if (uri !== null && range !== null) {
      editor.postMessage({ type: "open", uri, range });
    }
  };
}

const percent = element("span", { class: "percent" });
const picture = createPictureView(open, (zoom) => {
  percent.textContent = `${Math.round(zoom * 100)}%`;
});
const tree = createTreeView(open);
const asPicture = button("Picture", "Show as a picture", () => show("picture"));
const asTree = button("Tree", "Show as a tree", () => show("tree"));
const zooming = element(
  "div",
  { role: "group", "aria-label": "Zoom", class: "zooming" },
  button("\u2212", "Zoom out (-)", () => picture.zoomBy(1 / zoomStep)),
  percent,
  button("+", "Zoom in (+)", () => picture.zoomBy(zoomStep)),
  button("Fit", "Fit to the window (0)", () => picture.fit()),
);
const title = element("h1");
const description = element("p", { role: "status" });
const bar = element(
  "div",
  { class: "bar" },
  element("div", { role: "group", "aria-label": "Show as", class: "modes" }, asPicture, asTree),
  zooming,
);
const nothing = element("div", { class: "nothing" });
document.body.append(
  element("header", {}, element("div", { class: "words" }, title, description), bar),
  element("main", {}, nothing, picture.root, tree.root),
);

function show(as: ViewState["mode"]): void {
  mode = as;
  draw();
  focus();
}

function focus(): void {
  if (shown?.found) {
    (mode === "tree" ? tree : picture).focus();
  }
}

function draw(): void {
  const found = shown?.found === true;
  asPicture.setAttribute("aria-pressed", String(mode === "picture"));
  asTree.setAttribute("aria-pressed", String(mode === "tree"));
  bar.hidden = !found;
  zooming.hidden = mode !== "picture";
  picture.root.hidden = !found || mode !== "picture";
  tree.root.hidden = !found || mode !== "tree";
  nothing.hidden = found;
  if (target !== null) {
    host?.setState({ uri: target.uri, target: target.target, mode });
  }
  if (shown === null) {
    return;
  }
  title.textContent = `Graphs of ${shown.title}`;
  description.textContent = shown.description;
  if (!found) {
    sayWhatToDo(shown);
  } else if (mode === "picture") {
    picture.draw(shown);
  } else {
    tree.draw(shown);
  }
}

function sayWhatToDo({ message, targets }: GraphPicture): void {
  const others = targets.map((one) =>
    button(one.label, `Show the graphs of ${one.label}`, () =>
      host?.postMessage({ type: "choose", target: one }),
    ),
  );
  nothing.replaceChildren(
    element("p", {}, others.length > 0 && target?.target === null ? "Choose a target:" : message),
    ...(others.length > 0
      ? [element("div", { class: "targets", role: "group", "aria-label": "Targets" }, ...others)]
      : []),
    ...(others.length > 0 && target?.target === null
      ? []
      : [button("Run", "Run the target under the compiler", () => host?.postMessage({ type: "run" }))]),
  );
}

window.addEventListener("message", ({ data }: MessageEvent<DrawGraphs>) => {
  if (data.type !== "draw") {
    return;
  }
  const isOther = target?.uri !== data.of.uri || target.target !== data.of.target;
  target = data.of;
  shown = data.page;
  draw();
  if (shown.found && (isFirst || isOther)) {
    isFirst = false;
    if (mode === "picture") {
      picture.begin();
    }
    if (document.hasFocus()) {
      focus();
    }
  }
});

document.addEventListener("keydown", (event) => {
  const isPlain = !event.ctrlKey && !event.metaKey && !event.altKey;
  if (isPlain && mode === "picture" && shown?.found) {
    const act = {
      "+": () => picture.zoomBy(zoomStep),
      "=": () => picture.zoomBy(zoomStep),
      "-": () => picture.zoomBy(1 / zoomStep),
      "0": () => picture.fit(),
    }[event.key];
    act?.();
  }
});

const carried = document.getElementById("page");
if (host === null && carried !== null) {
  shown = JSON.parse(carried.textContent) as GraphPicture;
}
draw();
if (host === null && shown?.found) {
  picture.begin();
}
host?.postMessage({ type: "ready" });
