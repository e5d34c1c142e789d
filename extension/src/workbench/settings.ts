/**
 * Reads the `fuselight` section, and says where settings are written. The server parses what it uses.
 *
 * Invariant: a value of the wrong type counts as unset, so that a mistake in settings.json never stops the extension.
 */

import * as os from "node:os";
import * as path from "node:path";
import * as vscode from "vscode";

export const section = "fuselight";

/** Where a changed value is written, by the scope that has it. */
export const settingTargets = {
  workspaceFolder: vscode.ConfigurationTarget.WorkspaceFolder,
  workspace: vscode.ConfigurationTarget.Workspace,
  global: vscode.ConfigurationTarget.Global,
} as const;

/** The whole section as plain data, for the start of the server, which then requests the settings of each folder. */
export function wholeSection(): unknown {
  return JSON.parse(JSON.stringify(vscode.workspace.getConfiguration(section)));
}

/** A path from a setting, expanded; `""` when unset. */
export function readPath(name: string, folder: vscode.WorkspaceFolder | undefined, of = section): string {
  const value = vscode.workspace.getConfiguration(of, folder?.uri).get<unknown>(name);
  return typeof value === "string" ? expandPath(value.trim(), folder) : "";
}

/** Expands `~`, `${workspaceFolder}`, `${userHome}` and `${env:NAME}`; a relative path is one of the folder. */
export function expandPath(text: string, folder: vscode.WorkspaceFolder | undefined): string {
  const filled = text
    .replace(/\$\{workspaceFolder\}/g, folder?.uri.fsPath ?? "")
    .replace(/\$\{userHome\}/g, os.homedir())
    .replace(/\$\{env:([^}]+)\}/g, (_, variable: string) => process.env[variable] ?? "")
    .replace(/^~(?=$|[\\/])/, os.homedir());
  const isRelativePath = /[\\/]/.test(filled) && !path.isAbsolute(filled);
  return isRelativePath && folder ? path.join(folder.uri.fsPath, filled) : filled;
}
