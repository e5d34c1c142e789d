/**
 * Messages to the user.
 *
 * Invariant: every message of the extension is shown here, as plain text: names, settings and errors may contain what
 * VS Code would turn into a link.
 */

import * as vscode from "vscode";
import {
  type MessageActionItem,
  MessageType,
  type ShowMessageParams,
  type ShowMessageRequestParams,
} from "vscode-languageclient/node";
import { notice } from "./notice";

type Shown = Thenable<string | undefined>;

export function inform(text: string, ...actions: readonly string[]): Shown {
  return vscode.window.showInformationMessage(notice(text), ...actions);
}

export function warn(text: string, ...actions: readonly string[]): Shown {
  return vscode.window.showWarningMessage(notice(text), ...actions);
}

export function fail(text: string, ...actions: readonly string[]): Shown {
  return vscode.window.showErrorMessage(notice(text), ...actions);
}

/** A dialog, which stays until it is answered; undefined when the user cancels it. */
export function askInDialog(text: string, detail: string, ...actions: readonly string[]): Shown {
  const options = { modal: true, detail: notice(detail) };
  return vscode.window.showInformationMessage(notice(text), options, ...actions);
}

/** Shows a list that `showQuickPick` cannot show; undefined when the user closes it without a choice. */
export function askInList<T extends vscode.QuickPickItem>(list: vscode.QuickPick<T>): Promise<T | undefined> {
  return new Promise((done) => {
    list.onDidAccept(() => {
      done(list.selectedItems[0]);
      list.hide();
    });
    list.onDidHide(() => {
      done(undefined);
      list.dispose();
    });
    list.show();
  });
}

/** A message of the server. */
export function sayOfServer({ type, message }: ShowMessageParams): void {
  void showerOf(type)(message);
}

/** A message of the server with buttons; the answer is the pressed one. */
export async function askForServer({
  type,
  message,
  actions = [],
}: ShowMessageRequestParams): Promise<MessageActionItem | null> {
  const chosen = await showerOf(type)(message, ...actions.map(({ title }) => title));
  return actions.find(({ title }) => title === chosen) ?? null;
}

function showerOf(type: MessageType): typeof inform {
  return type === MessageType.Error ? fail : type === MessageType.Warning ? warn : inform;
}

/** What a page shows where the language server gave no answer: what happened, and what to do. */
export function noAnswer(error: unknown): string {
  const step = 'Run "Fuselight: Restart Language Server", then open this page again.';
  return `The Fuselight language server did not answer: ${textOf(error).replace(/\.$/, "")}. ${step}`;
}

export function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
