/** The settings that choose the interpreters of the server and of the models. */

import * as vscode from "vscode";
import { readPath } from "../workbench/settings";
import type { Settings } from "./resolve";

/** The settings that choose interpreters, for the window and for each of its folders. */
export function readSettings(): Settings {
  const folders = vscode.workspace.workspaceFolders ?? [];
  return {
    serverInterpreter: readPath("serverInterpreter", folders[0]),
    interpreters: new Map(
      [...folders, undefined].map((folder) => [
        folder?.uri.toString() ?? "",
        readPath("interpreter", folder),
      ]),
    ),
  };
}
