/**
 * The commands of the palette and the menus. Each calls the server or a part of the extension.
 *
 * Invariant: a command that cannot run says why.
 */

import * as vscode from "vscode";
import type { AgentProvider } from "./agents/provider";
import type { BenchView } from "./bench/view";
import { activeFolder, targetAtCursor } from "./cursor/cursor";
import { codeOf, findingAtCursor, goToFinding } from "./cursor/findings";
import type { GraphView } from "./graphs/view";
import { checkEnvironment, openPage } from "./help/pages";
import { reportProblem } from "./help/problem_report";
import { selectInterpreter } from "./interpreter/picker";
import type { JobView } from "./jobs/view";
import type { KernelHeat } from "./kernels/heat";
import type { KernelMarks } from "./kernels/marks";
import type { KernelView } from "./kernels/view";
import { fieldsOf } from "./messages/fields";
import { serverCommand } from "./messages/protocol";
import type { ReportView } from "./report/view";
import type { Consent } from "./server/consent";
import type { FixPreviews } from "./server/fix_preview";
import type { Lifecycle } from "./server/lifecycle";
import { pageOf } from "./server/page_links";
import { sayRefusal, sayRefusalCommand } from "./server/refused_fixes";
import { chooseDevice } from "./status/device_picker";
import { switchInlayHints } from "./status/inlay_hints";
import { type StatusBoard, showMenu } from "./status/status";
import type { TuneView } from "./tune/view";
import { inform } from "./workbench/say";

/** The parts of the extension that commands and tests use. */
export interface Parts {
  readonly context: vscode.ExtensionContext;
  /** The folder of files that the extension makes. */
  readonly storage: vscode.Uri;
  readonly lifecycle: Lifecycle;
  readonly board: StatusBoard;
  readonly consent: Consent;
  readonly fixes: FixPreviews;
  readonly report: ReportView;
  readonly kernels: KernelView;
  readonly marks: KernelMarks;
  readonly heat: KernelHeat;
  readonly graphs: GraphView;
  readonly benchmarks: BenchView;
  readonly tunings: TuneView;
  readonly jobs: JobView;
  readonly agents: AgentProvider;
  readonly log: vscode.LogOutputChannel;
}

export function registerCommands(parts: Parts): readonly vscode.Disposable[] {
  const { context, lifecycle, board, consent, report, kernels, benchmarks, tunings, jobs } = parts;
  const { ask } = lifecycle;

  const commands: Record<string, (...args: readonly unknown[]) => unknown> = {
    "fuselight.run": () => runAtCursor(serverCommand.run),
    "fuselight.kernels": () => runAtCursor(serverCommand.kernels),
    "fuselight.showKernel": kernels.show,
    "fuselight.switchKernelForm": (form) => kernels.switchForm(form),
    "fuselight.switchKernelFormBeside": (form) => kernels.switchForm(form, { beside: true }),
    "fuselight.saveKernelScript": kernels.saveScript,
    "fuselight.runFile": runFile,
    "fuselight.cancel": () => ask(serverCommand.cancel, { uri: null }),
    "fuselight.askAgain": askAgain,
    "fuselight.restart": () => ask(serverCommand.restartWorker, { folder: activeFolder() }),
    "fuselight.restartServer": () => lifecycle.restart(),
    "fuselight.nextFinding": () => goToFinding(1),
    "fuselight.previousFinding": () => goToFinding(-1),
    "fuselight.copyFinding": copyFinding,
    "fuselight.clearCaches": async () => {
      if ((await lifecycle.ready()) === null) {
        return lifecycle.warnNotRunning();
      }
      await ask(serverCommand.clearCaches);
      await benchmarks.changed();
      await tunings.changed();
      vscode.window.setStatusBarMessage("Fuselight: caches cleared", 4000);
      return undefined;
    },
    "fuselight.reportProblem": () => reportProblem(parts),
    "fuselight.checkEnvironment": () => checkEnvironment(lifecycle, activeFolder(), parts.storage),
    "fuselight.selectInterpreter": () => selectInterpreter(parts),
    "fuselight.chooseDevice": (folder) =>
      chooseDevice(typeof folder === "string" ? folder : activeFolder(), ask),
    "fuselight.switchInlayHints": switchInlayHints,
    "fuselight.showLog": () => parts.log.show(),
    "fuselight.showMenu": () => {
      const folder = activeFolder();
      const answered = folder !== null && consent.of(folder) !== null;
      return showMenu(board.of(vscode.window.activeTextEditor?.document.uri), { answered });
    },
    "fuselight.showDetails": showDetails,
    "fuselight.showGraphs": (argument) => parts.graphs.show(argument),
    "fuselight.verifyForecast": verifyForecast,
    "fuselight.benchmark": benchmarks.start,
    "fuselight.showBenchmark": benchmarks.show,
    "fuselight.cancelBenchmark": benchmarks.cancel,
    "fuselight.tune": tunings.start,
    "fuselight.showTuning": tunings.show,
    "fuselight.cancelTuning": tunings.cancel,
    "fuselight.accuracy": () => runAtCursor(serverCommand.accuracy),
    "fuselight.cancelAccuracy": () => ask(serverCommand.cancelAccuracy),
    "fuselight.memory": () => runAtCursor(serverCommand.memory),
    "fuselight.cancelMemory": () => ask(serverCommand.cancelMemory),
    "fuselight.repro": () => runAtCursor(serverCommand.repro),
    "fuselight.openJob": jobs.choose,
    "fuselight.followJob": jobs.follow,
    "fuselight.stopFollowingJob": jobs.stopFollowing,
    "fuselight.compareJob": jobs.compare,
    "fuselight.showJob": jobs.show,
    "fuselight.closeJob": jobs.close,
    "fuselight.copyAgentConfiguration": parts.agents.copyConfiguration,
    "fuselight.openWalkthrough": openWalkthrough,
    "fuselight.openPage": openPageOf,
    "fuselight.applyPreviewedFix": parts.fixes.apply,
    "fuselight.discardPreviewedFix": parts.fixes.discard,
    [sayRefusalCommand]: sayRefusal,
  };

  /** VS Code marks no step as done for a state from before it first read the walkthrough, so this sets it again. */
  async function openWalkthrough(): Promise<void> {
    await vscode.commands.executeCommand(
      "workbench.action.openWalkthrough",
      `${context.extension.id}#start`,
      false,
    );
    const done = {
      interpreter: board.all().some((status) => status.interpreter !== null),
      inputs: report.nodes().length > 0,
    };
    for (const [step, isDone] of Object.entries(done)) {
      await vscode.commands.executeCommand("setContext", `fuselight.done.${step}`, isDone);
    }
  }

  async function runFile(argument: unknown): Promise<void> {
    const uri = argument instanceof vscode.Uri ? argument : vscode.window.activeTextEditor?.document.uri;
    await (uri === undefined
      ? inform("Open a Python file to run its targets.")
      : ask(serverCommand.run, { uri: uri.toString(), target: null }));
  }

  async function runAtCursor(command: string): Promise<void> {
    const at = await targetAtCursor(lifecycle);
    await (at === null ? inform("Open a Python file to run its targets.") : ask(command, at));
  }

  /** Tries the remedies of the forecast of a node of the report, or of the target at the cursor. */
  async function verifyForecast(node: unknown): Promise<void> {
    const at = report.targetOf(node) ?? (await targetAtCursor(lifecycle));
    await (at === null
      ? inform("Open a Python file to verify the forecast of a target.")
      : ask(serverCommand.verifyForecast, at));
  }

  /** Forgets every answer of the user about the folder. */
  async function askAgain(): Promise<void> {
    const folder = activeFolder();
    if (folder === null) {
      void inform("Open a file of the folder first.");
      return;
    }
    await consent.remember(folder, null);
    await ask(serverCommand.askAgain, { folder });
    vscode.window.setStatusBarMessage("Fuselight: the next run in this folder asks for permission", 6000);
  }

  async function copyFinding(): Promise<void> {
    const uri = vscode.window.activeTextEditor?.document.uri.toString();
    const finding = await findingAtCursor("Copy which finding?");
    if (finding === undefined) {
      return;
    }
    const code = codeOf(finding);
    const text = await ask(serverCommand.copyFinding, { uri, line: finding.range.start.line, code });
    if (typeof text === "string") {
      await vscode.env.clipboard.writeText(text);
      vscode.window.setStatusBarMessage(`Fuselight: copied ${code} as Markdown`, 4000);
    }
  }

  /** Links and quick fixes pass an address; the command palette means the finding at the cursor. */
  async function openPageOf(argument: unknown): Promise<void> {
    const finding =
      typeof argument === "string" ? undefined : await findingAtCursor("Open the page of which finding?");
    const address = typeof argument === "string" ? argument : finding && pageOf(finding);
    if (address) {
      await openPage(context.extensionUri, address);
    }
  }

  async function showDetails(argument: unknown): Promise<void> {
    const { uri, target } = fieldsOf(argument);
    const at = typeof uri === "string" ? vscode.Uri.parse(uri) : vscode.window.activeTextEditor?.document.uri;
    if (at !== undefined) {
      await report.reveal(at, typeof target === "string" ? target : null);
    }
  }

  return Object.entries(commands).map(([name, action]) => vscode.commands.registerCommand(name, action));
}
