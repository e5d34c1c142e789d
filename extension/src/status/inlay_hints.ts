/**
 * Switches where the shapes of the last run stand in the text: after assignments, after calls as well, or nowhere.
 *
 * Invariant: the choice is written to `fuselight.inlayHints`, where the user can see and undo it.
 */

import * as vscode from "vscode";
import { section, settingTargets } from "../workbench/settings";
import { scopeOf } from "./device_choice";

const name = "inlayHints";
const first = "assignments";
/** What follows each value, in words. */
const next: Record<string, { value: string; words: string }> = {
  assignments: { value: "all", words: "after assignments and calls" },
  all: { value: "off", words: "off" },
  off: { value: first, words: "after assignments" },
};

/** The value in effect for the active editor. */
export function inlayHints(): string {
  return configuration().get<string>(name) ?? first;
}

/** Goes on to the next value, in the innermost settings that have one. */
export async function switchInlayHints(): Promise<void> {
  const { value, words } = next[inlayHints()] ?? { value: first, words: "after assignments" };
  const settings = configuration();
  await settings.update(name, value, settingTargets[scopeOf(settings.inspect(name) ?? {}, false)]);
  vscode.window.setStatusBarMessage(`Fuselight: inlay hints ${words}`, 6000);
}

function configuration(): vscode.WorkspaceConfiguration {
  return vscode.workspace.getConfiguration(section, vscode.window.activeTextEditor?.document.uri);
}
