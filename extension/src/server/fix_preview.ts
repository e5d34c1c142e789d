/**
 * The preview of a fix: what it changes, next to the file as it is, with buttons that apply or discard all of it.
 *
 * VS Code's own preview starts with nothing selected for edits that need a confirmation, so that its Apply does nothing.
 *
 * Invariant: at most one preview is open. It ends when it is applied, discarded or closed, or when a file changes; then
 * the server gets an answer, and an unfinished preview of an earlier window says that it has ended.
 */

import * as vscode from "vscode";
import type { FixAnswer } from "../messages/protocol";
import type { FixPreview } from "../messages/server_types";
import { inform } from "../workbench/say";
import type { Lifecycle } from "./lifecycle";

const scheme = "fuselight-fix";
const ended = "This preview has ended. Choose the fix again in the Quick Fix menu.";
const changed = "the file has changed since the fix was offered";
const context = "fuselight.previewsFix";

interface PreviewedFile {
  readonly document: vscode.TextDocument;
  readonly edits: readonly vscode.TextEdit[];
  readonly preview: vscode.Uri;
}

type Choice = "apply" | "discard" | "changed";

export type FixPreviews = ReturnType<typeof createFixPreviews>;

export function createFixPreviews(lifecycle: Lifecycle) {
  const texts = new Map<string, string>();
  let count = 0;
  let choose: ((choice: Choice) => void) | null = null;

  async function show({ label, documents }: FixPreview): Promise<FixAnswer> {
    choose?.("discard");
    const files = await Promise.all(documents.map(previewed));
    try {
      if (files.some((one, index) => isOther(one.document, documents[index]?.version ?? null))) {
        return { problem: changed };
      }
      const choice = await ask(label, files);
      return { problem: choice === "changed" ? changed : choice === "apply" ? await apply(files) : null };
    } finally {
      for (const { preview } of files) {
        texts.delete(preview.toString());
      }
    }
  }

  async function previewed({ uri, edits }: FixPreview["documents"][number]): Promise<PreviewedFile> {
    const document = await vscode.workspace.openTextDocument(vscode.Uri.parse(uri));
    const made = edits.flatMap(({ range, newText }) => {
      const place = lifecycle.toRange(range);
      return place === null ? [] : [vscode.TextEdit.replace(place, newText)];
    });
    // The path selects the language: that of a cell would select the notebook's JSON.
    const { path } = document.uri;
    const shown = document.languageId === "python" && !path.endsWith(".py") ? `${path}.py` : path;
    const preview = vscode.Uri.from({ scheme, path: shown, query: String(++count) });
    texts.set(preview.toString(), textAfter(document, made));
    return { document, edits: made, preview };
  }

  /** Opens the preview and waits for a button, the end of its tab, or an edit. */
  async function ask(label: string, files: readonly PreviewedFile[]): Promise<Choice> {
    choose?.("discard"); // of a preview that was asked for at the same time
    let isOver = false;
    const chosen = new Promise<Choice>((done) => {
      choose = done;
    });
    const mine = choose;
    const listeners = vscode.Disposable.from(
      vscode.workspace.onDidChangeTextDocument(({ document, contentChanges }) => {
        if (contentChanges.length > 0 && files.some((one) => one.document === document)) {
          mine?.("changed");
        }
      }),
      vscode.window.tabGroups.onDidChangeTabs(({ closed }) => {
        if (closed.some((tab) => shows(tab, files))) {
          mine?.("discard");
        }
      }),
    );
    try {
      await vscode.commands.executeCommand("setContext", context, true);
      await open(label, files);
      void inform(`Preview of ${label}`, "Apply", "Discard").then((button) => {
        if (button === "Apply" && isOver) {
          void inform(ended);
        } else if (button !== undefined) {
          mine?.(button === "Apply" ? "apply" : "discard");
        }
      });
      return await chosen;
    } finally {
      isOver = true;
      listeners.dispose();
      if (choose === mine) {
        choose = null;
        await vscode.commands.executeCommand("setContext", context, false);
      }
      await close(files);
    }
  }

  async function close(files: readonly PreviewedFile[]): Promise<void> {
    const tabs = vscode.window.tabGroups.all.flatMap((group) => group.tabs);
    await vscode.window.tabGroups.close(tabs.filter((tab) => shows(tab, files)));
  }

  function decide(choice: Choice): void {
    if (choose === null) {
      void inform(ended);
    } else {
      choose(choice);
    }
  }

  const provider = vscode.workspace.registerTextDocumentContentProvider(scheme, {
    provideTextDocumentContent: (uri) => texts.get(uri.toString()) ?? `# ${ended}\n`,
  });
  return {
    show,
    apply: () => decide("apply"),
    discard: () => decide("discard"),
    dispose: () => provider.dispose(),
  };
}

function isOther(document: vscode.TextDocument, version: number | null): boolean {
  return version !== null && document.version !== version;
}

function textAfter(document: vscode.TextDocument, edits: readonly vscode.TextEdit[]): string {
  let text = document.getText();
  const fromTheEnd = edits.toSorted((one, other) => other.range.start.compareTo(one.range.start));
  for (const { range, newText } of fromTheEnd) {
    text = text.slice(0, document.offsetAt(range.start)) + newText + text.slice(document.offsetAt(range.end));
  }
  return text;
}

/** Opens the preview of each file in a tab. */
async function open(label: string, files: readonly PreviewedFile[]): Promise<void> {
  for (const { document, preview } of files) {
    const options: vscode.TextDocumentShowOptions = { preview: files.length === 1 };
    await vscode.commands.executeCommand("vscode.diff", document.uri, preview, `Fix: ${label}`, options);
  }
}

function shows({ input }: vscode.Tab, files: readonly PreviewedFile[]): boolean {
  const shown = input instanceof vscode.TabInputTextDiff ? input.modified.toString() : null;
  return files.some(({ preview }) => preview.toString() === shown);
}

async function apply(files: readonly PreviewedFile[]): Promise<string | null> {
  const edit = new vscode.WorkspaceEdit();
  for (const { document, edits } of files) {
    edit.set(document.uri, [...edits]);
  }
  return (await vscode.workspace.applyEdit(edit)) ? null : "the editor refused the edit";
}
