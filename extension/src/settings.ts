/**
 * Reads the `fuselight` section. The server parses it; here only the two interpreters are looked at.
 *
 * Invariant: a value of the wrong type counts as unset, so that a slip in settings.json never stops the extension.
 */

import * as os from "node:os";
import * as path from "node:path";
import * as vscode from "vscode";
import type { Settings } from "./resolve";

export const section = "fuselight";

/** What chooses interpreters, for the window and for each of its folders. */
export function readSettings(): Settings {
  const folders = vscode.workspace.workspaceFolders ?? [];
  return {
    serverInterpreter: readPath("serverInterpreter", folders[0]),
    folders: [
      ...folders.map(
        (folder) => [folder.uri.toString(), { interpreter: readPath("interpreter", folder) }] as const,
      ),
      ["", { interpreter: readPath("interpreter", undefined) }] as const,
    ],
  };
}

/** The whole section as plain data, for the server's first look; it pulls each folder's own afterwards. */
export function wholeSection(): unknown {
  return JSON.parse(JSON.stringify(vscode.workspace.getConfiguration(section)));
}

/** A path from a setting, with `~`, `${workspaceFolder}` and `${env:NAME}` filled in; `""` when unset. */
export function readPath(name: string, folder: vscode.WorkspaceFolder | undefined, of = section): string {
  const value = vscode.workspace.getConfiguration(of, folder?.uri).get<unknown>(name);
  return typeof value === "string" ? fillIn(value.trim(), folder) : "";
}

function fillIn(text: string, folder: vscode.WorkspaceFolder | undefined): string {
  const filled = text
    .replace(/\$\{workspaceFolder\}/g, folder?.uri.fsPath ?? "")
    .replace(/\$\{userHome\}/g, os.homedir())
    .replace(/\$\{env:([^}]+)\}/g, (_, variable: string) => process.env[variable] ?? "")
    .replace(/^~(?=$|[\\/])/, os.homedir());
  const isRelativePath = /[\\/]/.test(filled) && !path.isAbsolute(filled);
  return isRelativePath && folder ? path.join(folder.uri.fsPath, filled) : filled;
}
