/**
 * Exports of a benchmark as files, and the choice of an exported file to compare with. The server makes the text, and the
 * page makes the picture.
 *
 * Invariant: every file is written where the user chose.
 */

import * as vscode from "vscode";
import type { BenchTarget } from "../messages/bench";
import type { Exported } from "../messages/server_types";
import { inform, warn } from "../workbench/say";
import { pictureIn } from "./target";

const kinds: Readonly<Record<string, string>> = { json: "JSON", csv: "CSV", html: "HTML", png: "PNG" };

export async function saveExported(of: BenchTarget, made: Exported | null): Promise<void> {
  if (made === null) {
    void warn("The Fuselight language server is not running. Nothing was exported.");
    return;
  }
  await save(of, made.name, Buffer.from(made.text, "utf8"));
}

/** The path of an exported benchmark that the user chooses; null without a choice. */
export async function chooseExported(of: BenchTarget): Promise<string | null> {
  const chosen = await vscode.window.showOpenDialog({
    title: "Compare with an Exported Benchmark",
    openLabel: "Compare",
    defaultUri: folderOf(of),
    filters: { JSON: ["json"] },
  });
  return chosen?.[0]?.fsPath ?? null;
}

export async function savePicture(
  of: BenchTarget,
  { name, data }: { readonly name: string; readonly data: string },
): Promise<void> {
  const bytes = pictureIn(data);
  if (bytes === null) {
    void warn("There is no picture to export: the page has no charts yet.");
    return;
  }
  await save(of, name, bytes);
}

async function save(of: BenchTarget, name: string, bytes: Uint8Array): Promise<void> {
  const ending = name.slice(name.lastIndexOf(".") + 1);
  const target = await vscode.window.showSaveDialog({
    title: "Export Benchmark",
    defaultUri: vscode.Uri.joinPath(folderOf(of), name),
    filters: { [kinds[ending] ?? ending]: [ending] },
  });
  if (target === undefined) {
    return;
  }
  await vscode.workspace.fs.writeFile(target, bytes);
  const open = "Open";
  const chosen = await inform(`Exported the benchmark to ${vscode.workspace.asRelativePath(target)}.`, open);
  if (chosen === open) {
    await vscode.commands.executeCommand("vscode.open", target);
  }
}

function folderOf(of: BenchTarget): vscode.Uri {
  const source = vscode.Uri.parse(of.uri);
  return vscode.workspace.getWorkspaceFolder(source)?.uri ?? vscode.Uri.joinPath(source, "..");
}
