/**
 * "Select Interpreter": the Pythons of the machine, each with its torch and where it was found, or a path that the user
 * types, pastes or browses to.
 *
 * Invariant: the choice is written to `fuselight.interpreter`, where the user can see and undo it. A path that does not
 * start a Python is not written.
 */

import * as vscode from "vscode";
import { notebookOf } from "../workbench/notebook";
import { askInList, fail, textOf } from "../workbench/say";
import { expandPath, section } from "../workbench/settings";
import { look, problemAt } from "./environment";
import { pythonAt } from "./offered";
import { offers } from "./resolve";
import { readSettings } from "./settings";

interface Entry extends vscode.QuickPickItem {
  readonly executable?: string;
  readonly act?: "browse" | "automatic";
}

const recentKey = "fuselight.recentInterpreters";
const mostRecent = 5;
const automatic: Entry = {
  label: "$(sparkle) Automatic",
  description: "follow the Python extension, the folder, PATH",
  act: "automatic",
};
const byPath: Entry = { label: "$(folder-opened) Browse...", act: "browse" };

export interface PickerParts {
  readonly context: { readonly globalState: vscode.Memento };
  readonly log: vscode.LogOutputChannel;
  readonly lifecycle: { readonly lookAgain: (cause: string) => Promise<void> };
}

export async function selectInterpreter({ context, log, lifecycle }: PickerParts): Promise<void> {
  if (!vscode.workspace.isTrusted) {
    await vscode.commands.executeCommand("workbench.trust.manage");
    return;
  }
  const place = await chooseFolder();
  if (place === null) {
    return;
  }
  const { folder } = place;
  const state = context.globalState;
  const recent = state.get<readonly string[]>(recentKey, []);
  const chosen = await pick(folder, findEntries(folder, recent, log), log);
  const executable = chosen?.act === "browse" ? await browse() : chosen?.executable;
  if (chosen === undefined || (executable === undefined && chosen.act !== "automatic")) {
    return;
  }
  const problem = executable === undefined ? null : await problemAt(executable);
  if (problem !== null) {
    void fail(`\`${executable}\` cannot be used: ${problem}.`);
    return;
  }
  if (executable !== undefined) {
    const others = recent.filter((one) => one !== executable);
    await state.update(recentKey, [executable, ...others].slice(0, mostRecent));
  }
  const target = folder ? vscode.ConfigurationTarget.WorkspaceFolder : vscode.ConfigurationTarget.Global;
  await vscode.workspace.getConfiguration(section, folder?.uri).update("interpreter", executable, target);
  // The setting may be what it was, while what the choice finds is not.
  await lifecycle.lookAgain("an interpreter was selected");
}

async function findEntries(
  folder: vscode.WorkspaceFolder | undefined,
  recent: readonly string[],
  log: vscode.LogOutputChannel,
): Promise<readonly Entry[]> {
  const settings = readSettings();
  const environment = await look(settings, { trust: true, bundled: false, log, offer: { recent } });
  return offers(settings, environment, folder?.uri.toString() ?? "").map(({ candidate, version, torch }) => ({
    label: `$(symbol-misc) Python ${version}, ${torch === null ? "no torch" : `torch ${torch}`}`,
    description: candidate.interpreter.executable,
    detail: candidate.why,
    executable: candidate.interpreter.executable,
  }));
}

function pick(
  folder: vscode.WorkspaceFolder | undefined,
  finding: Promise<readonly Entry[]>,
  log: vscode.LogOutputChannel,
): Promise<Entry | undefined> {
  const list = vscode.window.createQuickPick<Entry>();
  let found: readonly Entry[] = [];
  const show = () => {
    const typed = expandPath(list.value.trim(), folder);
    const isPath = /[\\/]/.test(typed);
    const executable = pythonAt(typed);
    const entry: Entry = {
      label: "$(file) Use This Path",
      description: executable,
      executable,
      alwaysShow: true,
    };
    list.items = [...(isPath ? [entry] : []), automatic, ...found, byPath];
  };
  list.title = "Fuselight: select the Python interpreter that has torch";
  list.placeholder = "Choose an interpreter, or paste the path of one or of its environment";
  list.matchOnDescription = true;
  list.busy = true;
  show();
  list.onDidChangeValue(show);
  void finding
    .then((entries) => {
      found = entries;
    })
    .catch((error: unknown) => log.error(`the interpreters could not be listed: ${textOf(error)}`))
    .finally(() => {
      list.busy = false;
      show();
    });
  return askInList(list);
}

/** The folder of the active file or cell; in a window with several folders, the user chooses. Null: none was chosen. */
async function chooseFolder(): Promise<{ readonly folder: vscode.WorkspaceFolder | undefined } | null> {
  const folders = vscode.workspace.workspaceFolders ?? [];
  const active = vscode.window.activeTextEditor?.document.uri;
  const own = active ? vscode.workspace.getWorkspaceFolder(notebookOf(active) ?? active) : undefined;
  if (folders.length > 1 && own === undefined) {
    const placeHolder = "Select an interpreter for which folder?";
    const chosen = await vscode.window.showWorkspaceFolderPick({ placeHolder });
    return chosen === undefined ? null : { folder: chosen };
  }
  return { folder: own ?? folders[0] };
}

async function browse(): Promise<string | undefined> {
  const picked = await vscode.window.showOpenDialog({
    canSelectMany: false,
    title: "Select a Python interpreter that has torch",
  });
  return picked?.[0]?.fsPath;
}
