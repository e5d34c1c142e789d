/**
 * The commands of the palette and the menus. Each one asks the server or an editor part; none decides anything.
 *
 * Invariant: a command that cannot be done says so in words.
 */

import * as vscode from "vscode";
import { createBenchCommands } from "./bench_commands";
import type { BenchView } from "./bench_view";
import type { Consent } from "./consent";
import { chooseDevice } from "./device_picker";
import { checkEnvironment } from "./doctor";
import type { OfferedTarget } from "./graph_messages";
import { amongOffered, targetIn } from "./graph_target";
import type { GraphView } from "./graph_view";
import { selectInterpreter } from "./interpreter_picker";
import { sourceOf } from "./kernel_documents";
import type { KernelView } from "./kernel_view";
import type { Lifecycle } from "./lifecycle";
import { codeOf, findingsAt, goToFinding } from "./navigation";
import { reportProblem } from "./problem_report";
import { serverCommand } from "./protocol";
import type { ReportView } from "./report_view";
import { type StatusBoard, showMenu } from "./status";

export interface Parts {
  readonly context: vscode.ExtensionContext;
  readonly lifecycle: Lifecycle;
  readonly board: StatusBoard;
  readonly consent: Consent;
  readonly report: ReportView;
  readonly kernels: KernelView;
  readonly graphs: GraphView;
  readonly benchmarks: BenchView;
  readonly log: vscode.LogOutputChannel;
}

export function registerCommands(parts: Parts): readonly vscode.Disposable[] {
  const { context, lifecycle, board, consent, report, kernels, graphs, benchmarks, log } = parts;

  /** Server commands exist only while the server runs. */
  async function ask(command: string, ...args: readonly unknown[]): Promise<unknown> {
    if (lifecycle.client() === null) {
      const again = "Restart Language Server";
      const chosen = await vscode.window.showWarningMessage(
        "The Fuselight language server is not running.",
        again,
      );
      if (chosen === again) {
        await lifecycle.restart();
      }
      return undefined;
    }
    return vscode.commands.executeCommand(command, ...args);
  }

  const bench = createBenchCommands(benchmarks, ask);

  async function doctor(): Promise<void> {
    const client = lifecycle.client();
    await (client === null ? ask("") : checkEnvironment(client, activeFolder()));
  }

  const commands: Record<string, (...args: readonly unknown[]) => unknown> = {
    "fuselight.run": () => run({ atCursor: true }),
    "fuselight.kernels": () => run({ atCursor: true, command: serverCommand.kernels }),
    "fuselight.showKernel": (argument) => kernels.show(argument),
    "fuselight.switchKernelForm": (form) => kernels.switchForm(form),
    "fuselight.switchKernelFormBeside": (form) => kernels.switchForm(form, { beside: true }),
    "fuselight.saveKernelScript": (to) => kernels.saveScript(to),
    "fuselight.runFile": (uri) => run({ atCursor: false, uri: uri instanceof vscode.Uri ? uri : undefined }),
    "fuselight.cancel": () => ask(serverCommand.cancel, { uri: null }),
    "fuselight.askAgain": askAgain,
    "fuselight.restart": () => ask(serverCommand.restartWorker, { folder: activeFolder() }),
    "fuselight.restartServer": () => lifecycle.restart(),
    "fuselight.nextFinding": () => goToFinding(1),
    "fuselight.previousFinding": () => goToFinding(-1),
    "fuselight.copyFinding": copyFinding,
    "fuselight.clearCaches": async () => {
      await ask(serverCommand.clearCaches);
      await benchmarks.changed();
      vscode.window.setStatusBarMessage("Fuselight: caches cleared", 4000);
    },
    "fuselight.reportProblem": () =>
      reportProblem({ context, client: lifecycle.client(), resolution: lifecycle.resolution(), board }),
    "fuselight.checkEnvironment": doctor,
    "fuselight.selectInterpreter": () => selectInterpreter(log),
    "fuselight.chooseDevice": (folder) =>
      chooseDevice(typeof folder === "string" ? folder : activeFolder(), ask),
    "fuselight.showLog": () => log.show(),
    "fuselight.showMenu": () => {
      const folder = activeFolder();
      const answered = folder !== null && consent.of(folder) !== null;
      return showMenu(board.of(vscode.window.activeTextEditor?.document.uri), { answered });
    },
    "fuselight.showDetails": showDetails,
    "fuselight.showGraphs": showGraphs,
    "fuselight.benchmark": (argument) => bench.benchmark(argument),
    "fuselight.showBenchmark": (argument) => bench.show(argument),
    "fuselight.cancelBenchmark": (argument) => bench.cancel(argument),
    "fuselight.openWalkthrough": openWalkthrough,
  };

  /** VS Code ticks no step for what was so before it first read the walkthrough, so it is told once it has. */
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

  async function run({
    atCursor,
    uri,
    command = serverCommand.run,
  }: {
    atCursor: boolean;
    uri?: vscode.Uri | undefined;
    command?: string;
  }): Promise<void> {
    const editor = vscode.window.activeTextEditor;
    const at = uri ?? editor?.document.uri;
    if (at === undefined) {
      void vscode.window.showInformationMessage("Open a Python file to run its targets.");
      return;
    }
    const target = atCursor && editor ? await targetAt(editor) : null;
    await ask(command, { uri: at.toString(), target });
  }

  /** Takes back "Run" as well as "Not in This Folder". */
  async function askAgain(): Promise<void> {
    const folder = activeFolder();
    if (folder === null) {
      void vscode.window.showInformationMessage("Open a file of the folder to ask again about.");
      return;
    }
    await consent.remember(folder, null);
    await ask(serverCommand.askAgain, { folder });
    vscode.window.setStatusBarMessage("Fuselight: the next run in this folder asks first", 6000);
  }

  async function copyFinding(): Promise<void> {
    const editor = vscode.window.activeTextEditor;
    const found = editor ? findingsAt(editor.document.uri, editor.selection) : [];
    const finding = found.length > 1 ? await chooseFinding(found) : found[0];
    if (editor === undefined || finding === undefined) {
      if (found.length === 0) {
        vscode.window.setStatusBarMessage("Fuselight: no finding on this line", 4000);
      }
      return;
    }
    const at = { uri: editor.document.uri.toString(), line: finding.range.start.line, code: codeOf(finding) };
    const text = await ask(serverCommand.copyFinding, at);
    if (typeof text === "string") {
      await vscode.env.clipboard.writeText(text);
      vscode.window.setStatusBarMessage(`Fuselight: ${at.code} copied as Markdown`, 4000);
    }
  }

  async function showDetails(argument: unknown): Promise<void> {
    const { uri, target } = detailsOf(argument);
    const at = uri ?? vscode.window.activeTextEditor?.document.uri;
    if (at !== undefined) {
      await report.reveal(at, target);
    }
  }

  /** Of a node of the report, of what a command names, or of the target at the cursor; else the user chooses. */
  async function showGraphs(argument: unknown): Promise<void> {
    const named = report.targetOf(argument) ?? targetIn(argument);
    if (named !== null && named.target !== null) {
      await graphs.show(named);
      return;
    }
    const editor = vscode.window.activeTextEditor;
    const isPython = editor?.document.languageId === "python";
    const source = isPython ? sourceOf(editor.document.uri) : report.shown();
    if (source === undefined) {
      void vscode.window.showInformationMessage("Open a Python file to see the graphs of its targets.");
      return;
    }
    const atCursor = source === editor?.document.uri ? await targetAt(editor) : null;
    const offered = await graphs.offered(source);
    const chosen = amongOffered(offered, atCursor) ?? (await chooseTarget(offered));
    if (chosen !== undefined) {
      await graphs.show(chosen ?? { uri: source.toString(), target: atCursor });
    }
  }

  return Object.entries(commands).map(([name, action]) => vscode.commands.registerCommand(name, action));
}

/** The target whose lens is nearest above the cursor, as its Run lens names it; null for the whole file. */
async function targetAt(editor: vscode.TextEditor): Promise<string | null> {
  const lenses = await vscode.commands.executeCommand<readonly vscode.CodeLens[]>(
    "vscode.executeCodeLensProvider",
    editor.document.uri,
    500,
  );
  const runs = lenses
    .filter((lens) => lens.command?.command === serverCommand.run)
    .filter((lens) => lens.range.start.line <= editor.selection.active.line)
    .sort((left, right) => right.range.start.line - left.range.start.line);
  return detailsOf(runs[0]?.command?.arguments?.[0]).target;
}

function detailsOf(argument: unknown): { uri: vscode.Uri | null; target: string | null } {
  const fields = typeof argument === "object" && argument !== null ? argument : {};
  const uri = "uri" in fields && typeof fields.uri === "string" ? vscode.Uri.parse(fields.uri) : null;
  const target = "target" in fields && typeof fields.target === "string" ? fields.target : null;
  return { uri, target };
}

async function chooseFinding(found: readonly vscode.Diagnostic[]): Promise<vscode.Diagnostic | undefined> {
  const entries = found.map((finding) => ({
    label: codeOf(finding),
    description: finding.message.split("\n", 1)[0] ?? "",
    finding,
  }));
  return (await vscode.window.showQuickPick(entries, { title: "Copy which finding?" }))?.finding;
}

/** Null where there is none to choose, undefined where the user chose none. */
async function chooseTarget(offered: readonly OfferedTarget[]): Promise<OfferedTarget | null | undefined> {
  const title = "Show the graphs of which target?";
  const entries = offered.map((target) => ({ label: target.label, target }));
  return offered.length === 0 ? null : (await vscode.window.showQuickPick(entries, { title }))?.target;
}

function activeFolder(): string | null {
  const uri = vscode.window.activeTextEditor?.document.uri;
  const folder = uri
    ? vscode.workspace.getWorkspaceFolder(sourceOf(uri))
    : vscode.workspace.workspaceFolders?.[0];
  return folder?.uri.toString() ?? null;
}
