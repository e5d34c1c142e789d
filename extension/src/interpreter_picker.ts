/**
 * "Select Interpreter": the Pythons that were found, each with its torch and the reason it was found, or one from the
 * disk.
 *
 * Invariant: the choice is written to `fuselight.interpreter`, where the user can see it and take it back.
 */

import * as vscode from "vscode";
import { look } from "./environment";
import { offers } from "./resolve";
import { readSettings, section } from "./settings";

interface Entry extends vscode.QuickPickItem {
  readonly executable?: string;
  readonly act?: "browse" | "automatic";
}

export async function selectInterpreter(log: vscode.LogOutputChannel): Promise<void> {
  if (!vscode.workspace.isTrusted) {
    await vscode.commands.executeCommand("workbench.trust.manage");
    return;
  }
  const folder = await chooseFolder();
  const settings = readSettings();
  const environment = await look(settings, { trust: true, bundled: false, log });
  const offered = offers(settings, environment, folder?.uri.toString() ?? "");
  const entries = offered.map(({ candidate, version, torch }): Entry => {
    const label = `$(symbol-misc) Python ${version}, ${torch === null ? "no torch" : `torch ${torch}`}`;
    const { executable } = candidate.interpreter;
    return { label, description: executable, detail: candidate.why, executable };
  });
  const chosen = await vscode.window.showQuickPick<Entry>(
    [
      {
        label: "$(sparkle) Automatic",
        description: "follow the Python extension, the folder, PATH",
        act: "automatic",
      },
      ...entries,
      { label: "$(folder-opened) Browse...", act: "browse" },
    ],
    { title: "Fuselight: the Python that has torch", matchOnDescription: true },
  );
  if (chosen === undefined) {
    return;
  }
  const value = chosen.act === "automatic" ? undefined : (chosen.executable ?? (await browse()));
  if (value === undefined && chosen.act !== "automatic") {
    return;
  }
  const target = folder ? vscode.ConfigurationTarget.WorkspaceFolder : vscode.ConfigurationTarget.Global;
  await vscode.workspace.getConfiguration(section, folder?.uri).update("interpreter", value, target);
}

function chooseFolder(): Thenable<vscode.WorkspaceFolder | undefined> {
  const folders = vscode.workspace.workspaceFolders ?? [];
  const active = vscode.window.activeTextEditor?.document.uri;
  const own = active ? vscode.workspace.getWorkspaceFolder(active) : undefined;
  if (folders.length > 1 && own === undefined) {
    return vscode.window.showWorkspaceFolderPick({ placeHolder: "The folder to choose an interpreter for" });
  }
  return Promise.resolve(own ?? folders[0]);
}

async function browse(): Promise<string | undefined> {
  const picked = await vscode.window.showOpenDialog({
    canSelectMany: false,
    title: "A Python that has torch",
  });
  return picked?.[0]?.fsPath;
}
