/**
 * Quick fixes that were refused, by a verification or before any run, with the reason.
 *
 * Invariant: they stay in the menu. VS Code leaves disabled entries out of a menu of quick fixes, so they become entries
 * that say why and change nothing.
 */

import * as vscode from "vscode";
import { inform } from "../workbench/say";

const notOffered = "no fix is offered: ";

export const sayRefusalCommand = "fuselight.sayRefusal";

export function withShownReason<T extends vscode.CodeAction | vscode.Command>(
  action: T,
): T | vscode.CodeAction {
  if (!(action instanceof vscode.CodeAction) || action.disabled === undefined) {
    return action;
  }
  const { title, disabled, kind, diagnostics } = action;
  const shown = new vscode.CodeAction(`${title}: ${disabled.reason}`, kind);
  shown.command = { title, command: sayRefusalCommand, arguments: [title, disabled.reason] };
  return diagnostics === undefined ? shown : Object.assign(shown, { diagnostics });
}

export function sayRefusal(title: unknown, reason: unknown): void {
  const why = String(reason);
  const rest = why.startsWith(notOffered) ? why.slice(notOffered.length) : why;
  void inform(`\`${String(title)}\` is not offered: ${rest}.`);
}
