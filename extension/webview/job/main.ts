/**
 * A job's page: in VS Code next to the source, or as a file that carries its data.
 *
 * Invariant: it draws the data that it receives. What it is compared with is in VS Code's state, so that a hidden or
 * reloaded page comes back unchanged.
 */

import type { DrawJob, JobMessage, JobShown } from "../../src/messages/job";
import type { JobPage, PagePlace } from "../../src/messages/page_types";
import { choice } from "../measured/choice";
import { createPageFrame } from "../measured/page_frame";
import { button } from "../page/dom";
import { acquireHost } from "../page/host";
import {
  cachesSection,
  comparisonSection,
  differencesSection,
  findingsSection,
  flameSection,
  notesSection,
  ranksSection,
  startSection,
  timelineSection,
  waitsSection,
} from "./sections";
import { summary } from "./shown";

const host = acquireHost<JobMessage, JobShown>();
const open = host === null ? null : (place: PagePlace) => host.postMessage({ type: "open", place });
const frame = createPageFrame();
let before: JobPage | null = null;

function draw(page: JobPage): void {
  frame.drawHead(`Job ${page.title}`, summary(page), page);
  if (before !== null && JSON.stringify(before) === JSON.stringify(page)) {
    return;
  }
  before = page;
  frame.drawTools(tools(page));
  const sections = page.found
    ? [
        comparisonSection(page, open),
        differencesSection(page, open),
        findingsSection(page, open),
        ranksSection(page, open),
        waitsSection(page, open),
        timelineSection(page),
        cachesSection(page, open),
        startSection(page, open),
        flameSection(page, open),
        notesSection(page),
      ]
    : [];
  frame.drawSections(sections);
}

function tools(page: JobPage): readonly HTMLElement[] {
  if (host === null) {
    return [];
  }
  const send = (message: JobMessage) => () => host.postMessage(message);
  if (!page.found) {
    return [button("Open Again", "Open the logs of this job again", send({ type: "reopen" }))];
  }
  return [
    compareWith(page),
    button("Close the Job", "Close the job and remove its findings", send({ type: "close" })),
  ];
}

const another = "another";

/** The choice of the job to compare with. */
function compareWith({ others, against }: JobPage): HTMLElement {
  const options = [{ id: "", label: "nothing" }, ...others, { id: another, label: "another trace\u2026" }];
  return choice("Compare with", options, against, (id) =>
    host?.postMessage(id === another ? { type: "compareOther" } : { type: "compare", against: id || null }),
  );
}

window.addEventListener("message", ({ data }: MessageEvent<DrawJob>) => {
  if (host !== null && data.type === "draw") {
    draw(data.page);
    host.setState(data.of);
  }
});

const carried = document.getElementById("page");
if (host === null && carried !== null) {
  draw(JSON.parse(carried.textContent) as JobPage);
} else {
  host?.postMessage({ type: "ready" });
}
