/**
 * A search's page: in VS Code next to the source, or standalone with the data of an exported file.
 *
 * Invariant: it draws the data that it receives and computes no times.
 */

import type { BenchTarget } from "../../src/messages/bench";
import type { TunedPage } from "../../src/messages/page_types";
import type { DrawTuning, TuneMessage } from "../../src/messages/tune";
import { createPageFrame } from "../measured/page_frame";
import { moment } from "../measured/words";
import { button, element } from "../page/dom";
import { acquireHost } from "../page/host";
import {
  candidatesSection,
  decisionSection,
  knobsSection,
  notesSection,
  raceSection,
  replaySection,
  waitingSection,
} from "./sections";

const host = acquireHost<TuneMessage, BenchTarget>();
let page: TunedPage | null = null;
const frame = createPageFrame();

function draw(next: TunedPage): void {
  const before = page;
  page = next;
  drawHead(next);
  if (before === null || !sameBody(before, next)) {
    drawBody(next);
  }
}

function drawHead(shown: TunedPage): void {
  frame.drawHead(`Tuning of ${shown.title}`, shown.found ? summary(shown) : "", shown);
}

/** While a search runs, often only the text of its progress changes. */
function sameBody(left: TunedPage, right: TunedPage): boolean {
  const body = (one: TunedPage) => JSON.stringify({ ...one, message: "", stale: false });
  return body(left) === body(right);
}

function drawBody(shown: TunedPage): void {
  frame.drawTools(tools(shown));
  frame.drawSections([
    waitingSection(shown),
    decisionSection(shown),
    replaySection(shown),
    candidatesSection(shown),
    raceSection(shown),
    knobsSection(shown),
    notesSection(shown),
  ]);
}

function tools(shown: TunedPage): readonly HTMLElement[] {
  if (host === null) {
    return [];
  }
  const send = (type: TuneMessage["type"]) => () => host.postMessage({ type });
  const { result, running, found, file } = shown;
  const start = found ? "Tune again" : "Tune";
  return [
    element(
      "div",
      { class: "group" },
      running
        ? button(
            "Cancel",
            "Cancel the search and keep the best configuration that was confirmed",
            send("cancel"),
          )
        : button(start, "Search the fastest configuration of this target", send("tune")),
    ),
    ...(result === null
      ? []
      : [
          button("Copy as torch.compile(...)", "Copy the decision as Python without Fuselight", send("copy")),
        ]),
    ...(file === ""
      ? []
      : [button("Open fuselight-tuned.json", "Open the file that a program replays", send("openFile"))]),
    ...(result === null || result.fixes.length === 0
      ? []
      : [button("Apply the fixes", "Apply the verified fixes that the decision needs", send("applyFixes"))]),
  ];
}

function summary(shown: TunedPage): string {
  const inputs = shown.inputs.length > 0 ? ` of ${shown.inputs.join(", ")}` : "";
  const device = shown.machine.find(({ name }) => name === "device")?.value;
  const tried = device === undefined ? "attempted" : `measured on ${device}`;
  const when = shown.when === "" ? "" : `${tried}, ${moment(shown.when)}`;
  return [shown.path, `${shown.work}${inputs}`, when].filter((part) => part !== "").join(" \u00b7 ");
}

window.addEventListener("message", ({ data }: MessageEvent<DrawTuning>) => {
  if (host !== null && data.type === "draw") {
    draw(data.page);
    host.setState({ uri: data.of.uri, target: data.of.target });
  }
});

const carried = document.getElementById("page");
if (host === null && carried !== null) {
  draw(JSON.parse(carried.textContent) as TunedPage);
} else {
  host?.postMessage({ type: "ready" });
}
