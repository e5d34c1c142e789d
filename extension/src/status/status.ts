/**
 * The status item: what Fuselight does in the folder of the active editor, and its menu.
 *
 * Invariant: states differ in their text and their icon, not by color alone.
 */

import * as vscode from "vscode";
import { folderOf } from "../cursor/cursor";
import type { FolderState, FolderStatus } from "../messages/server_types";
import { fail } from "../workbench/say";
import { inlayHints } from "./inlay_hints";
import { outside, shownFolder } from "./shown_folder";
import { interpreterMessage, spoken } from "./spoken_status";

const icons: Record<FolderState, string> = {
  untrusted: "$(shield)",
  idle: "$(zap)",
  starting: "$(loading~spin)",
  running: "$(sync~spin)",
  failed: "$(error)",
  noInterpreter: "$(circle-slash)",
};

const words: Record<FolderState, string> = {
  untrusted: "not trusted",
  idle: "ready",
  starting: "starting",
  running: "running",
  failed: "failed",
  noInterpreter: "no interpreter",
};

/** The state of every folder that the server has not reported. */
function noServer(state: FolderState, detail: string): FolderStatus {
  const nothing = { interpreter: null, why: null, torch: null, device: null, running: [], verifying: [] };
  return { folder: null, state, text: words[state], detail, generation: 0, ...nothing };
}

export type StatusBoard = ReturnType<typeof createStatusBoard>;

export function createStatusBoard() {
  const item = vscode.window.createStatusBarItem("fuselight.status", vscode.StatusBarAlignment.Right, 90);
  const changed = new vscode.EventEmitter<FolderStatus>();
  const byFolder = new Map<string, FolderStatus>();
  let fallback = noServer("starting", "Starting the language server.");

  let last: string | null = null;

  /** The state of the folder that `uri` is in, or of the one that stands for it. */
  function of(uri: vscode.Uri | undefined): FolderStatus {
    const shown = shownFolder(folderOf(uri), new Set(byFolder.keys()), last);
    return (shown === null ? undefined : byFolder.get(shown)) ?? fallback;
  }

  function draw(): void {
    const editor = vscode.window.activeTextEditor;
    const running = [...byFolder.values()].some((status) => status.state === "running");
    void vscode.commands.executeCommand("setContext", "fuselight.running", running);
    if (editor?.document.languageId !== "python" && !running) {
      item.hide();
      return;
    }
    const status = of(editor?.document.uri);
    last = keyOf(status);
    item.name = "Fuselight";
    const isVerifying = status.state === "idle" && status.verifying.length > 0;
    // The server says which one: no interpreter, or one without torch.
    const state = status.state === "noInterpreter" ? status.text : words[status.state];
    const label = status.state === "idle" ? "Fuselight" : `Fuselight: ${state}`;
    item.text = isVerifying ? `${icons.running} Fuselight: verifying` : `${icons[status.state]} ${label}`;
    const fixes = isVerifying ? `; verifying ${status.verifying.join(", ")}` : "";
    item.accessibilityInformation = {
      label: spoken(state, `${status.detail}${fixes}`),
      role: "button",
    };
    item.tooltip = tooltip(status);
    item.backgroundColor =
      status.state === "failed" || status.state === "noInterpreter"
        ? new vscode.ThemeColor("statusBarItem.warningBackground")
        : undefined;
    item.command = "fuselight.showMenu";
    item.show();
  }

  const listener = vscode.Disposable.from(
    vscode.window.onDidChangeActiveTextEditor(draw),
    vscode.workspace.onDidChangeWorkspaceFolders(({ removed }) => {
      for (const { uri } of removed) {
        byFolder.delete(uri.toString()); // the server says nothing more of it
      }
      draw();
    }),
  );
  draw();
  return {
    /** A folder's state has changed. */
    set(status: FolderStatus): void {
      byFolder.set(keyOf(status), status);
      draw();
      changed.fire(status);
    },
    /** The server runs; what it has not reported is idle. */
    started(): void {
      fallback = noServer("idle", "Save a file, or run a target from its code lens.");
      draw();
    },
    /** Forgets every state: the server stopped, for the given reason. */
    clear(state: FolderState, detail: string): void {
      byFolder.clear();
      fallback = noServer(state, detail);
      draw();
      changed.fire(fallback);
    },
    of,
    all: (): readonly FolderStatus[] => [...byFolder.values()],
    onDidChange: changed.event,
    dispose: () => vscode.Disposable.from(listener, item, changed).dispose(),
  };
}

function keyOf(status: FolderStatus): string {
  return status.folder ? vscode.Uri.parse(status.folder).toString() : outside;
}

function tooltip(status: FolderStatus): vscode.MarkdownString {
  const text = new vscode.MarkdownString(undefined, true);
  text.appendMarkdown(`${icons[status.state].replace("~spin", "")} **Fuselight** - `);
  text.appendText(status.text || words[status.state]);
  for (const line of [
    status.detail,
    status.interpreter ? `Interpreter: ${status.interpreter}${status.why ? ` (${status.why})` : ""}` : "",
    status.torch ? `torch ${status.torch}` : "",
    ...status.running.map((target) => `Running: ${target}`),
    ...status.verifying.map((fix) => `Verifying: ${fix}`),
  ]) {
    if (line !== "") {
      text.appendMarkdown("\n\n");
      text.appendText(line);
    }
  }
  return text;
}

/** Warns once for each reason that a folder's interpreter cannot run code, with a way to select another. */
export function warnOfInterpreters(board: StatusBoard): vscode.Disposable {
  const warned = new Map<string | null, string>();
  return board.onDidChange(async ({ folder, state, detail, why, torch }) => {
    if (state !== "noInterpreter") {
      if (torch !== null) {
        warned.delete(folder); // code has run since
      }
      return;
    }
    if (warned.get(folder) === detail) {
      return;
    }
    warned.set(folder, detail);
    const actions = { "Select Interpreter": "fuselight.selectInterpreter", "Show Log": "fuselight.showLog" };
    const chosen = await fail(interpreterMessage(detail, why), ...Object.keys(actions));
    if (chosen !== undefined && chosen in actions) {
      await vscode.commands.executeCommand(actions[chosen as keyof typeof actions]);
    }
  });
}

interface MenuEntry extends vscode.QuickPickItem {
  readonly command: string;
}

/** The menu of the status item, with the actions that this state allows. */
export async function showMenu(status: FolderStatus, { answered }: { answered: boolean }): Promise<void> {
  const entries: MenuEntry[] = [];
  const offer = (icon: string, label: string, command: string, description = "") =>
    entries.push({ label: `$(${icon}) ${label}`, description, command });
  if (status.state === "untrusted") {
    offer("shield", "Manage Workspace Trust", "workbench.trust.manage");
  } else {
    if (status.running.length > 0 || status.verifying.length > 0 || status.state === "running") {
      const active = [...status.running, ...status.verifying];
      offer("stop-circle", "Cancel Runs", "fuselight.cancel", active.join(", "));
    } else {
      offer("run-all", "Run All Targets in File", "fuselight.runFile");
    }
    offer("list-tree", "Show Report", "fuselight.report.focus");
    offer("arrow-down", "Go to Next Finding", "fuselight.nextFinding");
    const chosen = status.interpreter ? `${status.interpreter} (${status.why ?? ""})` : "none";
    offer("symbol-misc", "Select Interpreter", "fuselight.selectInterpreter", chosen);
    offer("circuit-board", "Choose Target Device", "fuselight.chooseDevice", status.device?.key);
    offer("symbol-parameter", "Switch Inlay Hints", "fuselight.switchInlayHints", inlayHints());
    if (answered) {
      offer("question", "Ask Again Before Running Code in This Folder", "fuselight.askAgain");
    }
    offer("debug-restart", "Restart Worker", "fuselight.restart");
  }
  offer("refresh", "Restart Language Server", "fuselight.restartServer");
  offer("output", "Show Log", "fuselight.showLog");
  offer("clear-all", "Clear Caches", "fuselight.clearCaches");
  offer("pulse", "Check Environment", "fuselight.checkEnvironment");
  offer("bug", "Report a Problem", "fuselight.reportProblem");
  offer("book", "Get Started", "fuselight.openWalkthrough");
  const title = `Fuselight: ${status.text || words[status.state]}`;
  const entry = await vscode.window.showQuickPick(entries, { title, placeHolder: status.detail });
  if (entry) {
    await vscode.commands.executeCommand(entry.command);
  }
}
