/**
 * "Tune": a page next to the source with the search for the fastest configuration of a target.
 *
 * Invariant: the server makes what is shown, and is asked again whenever it reports a change. What is copied or opened
 * comes from the server, never from the page.
 */

import * as vscode from "vscode";
import { benchTargetIn } from "../bench/target";
import { answeredPage, createTargetRuns } from "../bench/target_runs";
import type { BenchTarget } from "../messages/bench";
import type { TunedPage } from "../messages/page_types";
import { serverCommand, tunedRequest } from "../messages/protocol";
import { spokenTarget } from "../messages/target_name";
import type { Lifecycle } from "../server/lifecycle";
import { createWebviewHost, type Page } from "../webviews/host";
import { tuneMessageIn, tuningTitleOf } from "./target";

type TuningPage = Page<BenchTarget, TunedPage>;
export type TuneView = ReturnType<typeof createTuneView>;

export function createTuneView(extension: vscode.Uri, lifecycle: Lifecycle) {
  const host = createWebviewHost<BenchTarget, TunedPage>(extension, {
    viewType: "fuselight.tuning",
    asset: "tune",
    preserveFocus: true,
    titleOf: tuningTitleOf,
    restore: benchTargetIn,
    fetch: (of) => answeredPage(lifecycle.request(tunedRequest, of), (message) => emptyPage(of, message)),
    receive: (page, message) => receive(page, message),
  });

  async function receive(page: TuningPage, value: unknown): Promise<void> {
    const { uri, target } = page.shown;
    const { result = null, file = "" } = page.content ?? {};
    switch (tuneMessageIn(value)?.type) {
      case "tune":
        await runs.start({ uri, target });
        return page.draw();
      case "cancel":
        return runs.cancel({ uri, target });
      case "copy":
        if (result !== null) {
          await vscode.env.clipboard.writeText(result.code);
          vscode.window.setStatusBarMessage("Fuselight: copied the call of torch.compile", 4000);
        }
        return;
      case "openFile":
        if (file !== "") {
          await vscode.commands.executeCommand("vscode.open", vscode.Uri.parse(file), {
            viewColumn: vscode.ViewColumn.One,
          });
        }
        return;
      case "applyFixes":
        await lifecycle.ask(serverCommand.applyAllFixes, { uri });
    }
  }

  const runs = createTargetRuns(lifecycle, host, {
    start: serverCommand.tune,
    cancel: serverCommand.cancelTune,
    verb: "tune",
    participle: "tuned",
    show: (of) => host.show(of),
  });
  return runs;
}

function emptyPage({ uri, target }: BenchTarget, message: string): TunedPage {
  const flags = { found: false, running: false, stale: false, partial: false };
  const texts = { file: "", file_shown: "", file_problem: "", when: "", work: "", numerics: "", path: "" };
  const numbers = { seconds: 0, budget_seconds: 0, modes_seconds: 0 };
  const lists = {
    inputs: [],
    statements: [],
    machine: [],
    notes: [],
    comparison: [],
    knobs: [],
    candidates: [],
    race: [],
  };
  return {
    ...flags,
    ...texts,
    ...numbers,
    ...lists,
    title: spokenTarget(target),
    message,
    target,
    uri,
    result: null,
  };
}
