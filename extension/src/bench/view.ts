/**
 * "Show the Benchmark": a page next to the source with the measurements of a target.
 *
 * Invariant: the server makes what is shown, and is asked again whenever it reports a change. Messages of the page are
 * checked before they are acted on.
 */

import * as vscode from "vscode";
import type { BenchShown } from "../messages/bench";
import type { MeasuredPage } from "../messages/page_types";
import { measuredExportRequest, measuredRequest, serverCommand } from "../messages/protocol";
import { spokenTarget } from "../messages/target_name";
import type { Lifecycle } from "../server/lifecycle";
import { createWebviewHost, goToPlace, type Page } from "../webviews/host";
import { askInDialog } from "../workbench/say";
import { chooseExported, saveExported, savePicture } from "./export";
import { benchShownIn, benchTitleOf, measuredAt, pageMessageIn } from "./target";
import { answeredPage, createTargetRuns } from "./target_runs";

type BenchPage = Page<BenchShown, MeasuredPage>;
export type BenchView = ReturnType<typeof createBenchView>;

export function createBenchView(extension: vscode.Uri, lifecycle: Lifecycle) {
  const host = createWebviewHost<BenchShown, MeasuredPage>(extension, {
    viewType: "fuselight.benchmark",
    asset: "bench",
    preserveFocus: true,
    titleOf: benchTitleOf,
    restore: benchShownIn,
    fetch: (of) =>
      answeredPage(lifecycle.request(measuredRequest, measuredAt(of)), (message) => emptyPage(of, message)),
    receive: (page, message) => receive(page, message),
  });

  async function receive(page: BenchPage, value: unknown): Promise<void> {
    const message = pageMessageIn(value);
    const target = { uri: page.shown.uri, target: page.shown.target };
    switch (message?.type) {
      case "open":
        return goToPlace(message.place, page.panel);
      case "benchmark":
        showNewest(page);
        await runs.start(target);
        return page.draw();
      case "cancel":
        return runs.cancel(target);
      case "forget": {
        const text = "Remove this benchmark from the history?";
        if ((await askInDialog(text, "You cannot undo this.", "Remove")) === "Remove") {
          await vscode.commands.executeCommand(serverCommand.forgetBench, { ...target, run: message.run });
          showNewest(page);
          await page.draw();
        }
        return;
      }
      case "choose":
        page.shown = { ...page.shown, run: message.run, with: message.with };
        return page.draw();
      case "chooseFile": {
        const file = await chooseExported(page.shown);
        page.shown = { ...page.shown, with: file ?? page.shown.with };
        return page.draw(); // without a choice as well: the list then shows what is compared
      }
      case "export": {
        const what = { ...measuredAt(page.shown), format: message.format };
        return saveExported(page.shown, await lifecycle.request(measuredExportRequest, what));
      }
      case "picture":
        return savePicture(page.shown, message);
    }
  }

  const runs = createTargetRuns(lifecycle, host, {
    start: serverCommand.bench,
    cancel: serverCommand.cancelBench,
    verb: "benchmark",
    participle: "benchmarked",
    show: (of) => host.show({ ...of, run: null, with: null }, showNewest),
  });
  return runs;
}

/** The newest run, not one that the user chose earlier. */
function showNewest(page: BenchPage): void {
  page.shown = { ...page.shown, run: null };
}

function emptyPage({ uri, target, run }: BenchShown, message: string): MeasuredPage {
  const flags = { found: false, running: false, stale: false, partial: false };
  const lists = { when: "", work: "", inputs: [], verdict: [], machine: [], notes: [], configurations: [] };
  const of = { run, title: spokenTarget(target), message, target, path: "", uri };
  return { ...flags, ...of, ...lists, profiles: {}, history: [], comparison: null };
}
