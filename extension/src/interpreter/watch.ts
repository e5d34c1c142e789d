/**
 * Notices that an environment appears in a folder, or torch in one that is there.
 *
 * Invariant: nothing is executed or read. Environments that the user excludes from watching are found by the next run.
 */

import * as vscode from "vscode";

/** What is written early and last when an environment is made, and last when torch is installed. */
const patterns = [
  "**/{.venv,venv}",
  "**/{.venv,venv}/pyvenv.cfg",
  "**/{.venv,venv}/**/torch-*.dist-info/RECORD",
];
/** Milliseconds in which the rest of an environment is written. */
const settle = 1000;

export function watchEnvironments(appeared: () => void): vscode.Disposable {
  let timer: NodeJS.Timeout | undefined;
  const soon = () => {
    clearTimeout(timer);
    timer = setTimeout(appeared, settle);
  };
  const watchers = patterns.map((pattern) =>
    vscode.workspace.createFileSystemWatcher(pattern, false, false, true),
  );
  for (const watcher of watchers) {
    watcher.onDidCreate(soon);
    watcher.onDidChange(soon);
  }
  return vscode.Disposable.from(...watchers, new vscode.Disposable(() => clearTimeout(timer)));
}
