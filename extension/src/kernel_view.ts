/**
 * "Show Generated Kernel": which one, beside the source, and in which of its forms.
 *
 * Invariant: where there is nothing to show, the user is told what to do about it.
 */

import * as vscode from "vscode";
import { type FetchKernel, type KernelDocuments, kernelUri } from "./kernel_documents";
import { idOf, kernelScheme } from "./kernel_uri";
import type { KernelEntry, KernelEntryId, KernelsAt } from "./protocol";

/** Asks the server; null while there is none. */
export type FetchKernels = (at: KernelsAt) => Promise<readonly KernelEntry[] | null>;

export interface KernelView {
  show(argument: unknown): Promise<void>;
  /** Show the kernel at hand in another form, `to` or one that the user picks; `beside` leaves it where it is. */
  switchForm(to: unknown, where?: { readonly beside: boolean }): Promise<void>;
  /** Write the script of the kernel that is shown to a file, `to` or one that the user names. */
  saveScript(to: unknown): Promise<void>;
}

const forms: Record<string, string> = {
  source: "Source of the kernel",
  ttir: "TTIR: Triton's own representation",
  ttgir: "TTGIR: the same, laid out for the GPU",
  llir: "LLVM IR",
  ptx: "PTX: NVIDIA's virtual assembly",
  sass: "SASS: what the GPU runs",
  amdgcn: "AMDGCN: what the GPU runs",
  wrapper: "Wrapper that calls the graph's kernels",
  joint: "Joint graph of forward and backward",
  script: "Script that runs by itself, checks and times the graph's kernels",
  aten: "ATen graph that the kernels are of",
};

export function createKernelView(
  fetchKernels: FetchKernels,
  fetchDocument: FetchKernel,
  documents: KernelDocuments,
): KernelView {
  async function show(argument: unknown): Promise<void> {
    const named = entryOf(argument);
    if (named !== null) {
      await open(kernelUri(named, named.name));
      return;
    }
    const at = placeOf(argument);
    if (at === null) {
      void vscode.window.showInformationMessage("Open a Python file to see the kernels of a line.");
      return;
    }
    const found = await fetchKernels(at);
    if (found === null) {
      return; // what asks has said why
    }
    if (found.length === 0) {
      await nothing(at);
      return;
    }
    const sources = found.filter((one) => one.form === "source");
    const entry = sources.length === 1 ? sources[0] : await pick(found);
    if (entry !== undefined) {
      await open(kernelUri(entry, entry.name));
    }
  }

  async function nothing(at: KernelsAt): Promise<void> {
    const all = at.line === undefined ? [] : ((await fetchKernels({ uri: at.uri })) ?? []);
    const generate = "Generate Kernels";
    const others = "Other Lines' Kernels";
    const text =
      all.length > 0
        ? "No kernel comes from this line."
        : "No kernels have been generated for this file yet: press Kernels above a target.";
    const chosen = await vscode.window.showInformationMessage(text, all.length > 0 ? others : generate);
    if (chosen === generate) {
      await vscode.commands.executeCommand("fuselight.kernels");
    } else if (chosen === others) {
      const entry = await pick(all);
      if (entry !== undefined) {
        await open(kernelUri(entry, entry.name));
      }
    }
  }

  async function switchForm(to: unknown, { beside } = { beside: false }): Promise<void> {
    const uri = vscode.window.activeTextEditor?.document.uri;
    const id = uri?.scheme === kernelScheme ? idOf(uri.query) : null;
    const offered = uri ? (documents.of(uri)?.forms ?? []) : [];
    if (uri === undefined || id === null || offered.length === 0) {
      void vscode.window.showInformationMessage("Open a generated kernel to switch what is shown of it.");
      return;
    }
    const entries = offered.map((form) => ({
      label: forms[form.form] ?? form.form,
      description: form.form === id.form ? "shown now" : "",
      form,
    }));
    const named = entries.find(({ form }) => form.form === to);
    const title = beside ? "What to show beside the kernel" : "What to show of the kernel";
    const chosen = named ?? (await vscode.window.showQuickPick(entries, { title }));
    if (chosen !== undefined) {
      await open(kernelUri({ ...id, form: chosen.form.form }, chosen.form.name), { beside });
    }
  }

  async function saveScript(to: unknown): Promise<void> {
    const uri = vscode.window.activeTextEditor?.document.uri;
    const id = uri?.scheme === kernelScheme ? idOf(uri.query) : null;
    const script = uri ? documents.of(uri)?.forms.find(({ form }) => form === "script") : undefined;
    const made = id && script ? await fetchDocument({ ...id, form: script.form }) : null;
    if (id === null || script === undefined || !made?.found) {
      void vscode.window.showInformationMessage("Open a generated kernel to save a script of it.");
      return;
    }
    const beside = vscode.Uri.joinPath(vscode.Uri.parse(id.uri), "..", script.name);
    const target =
      to instanceof vscode.Uri
        ? to
        : await vscode.window.showSaveDialog({ defaultUri: beside, filters: { Python: ["py"] } });
    if (target !== undefined) {
      await vscode.workspace.fs.writeFile(target, Buffer.from(made.text, "utf8"));
      await vscode.window.showTextDocument(target, { preview: false });
    }
  }

  return { show, switchForm, saveScript };
}

async function pick(found: readonly KernelEntry[]): Promise<KernelEntry | undefined> {
  const entries = found.map((entry) => ({
    label: entry.label,
    description: entry.description,
    detail: entry.target === "" ? "__main__" : entry.target,
    entry,
  }));
  const title = "Show which generated kernel?";
  return (await vscode.window.showQuickPick(entries, { title, matchOnDescription: true }))?.entry;
}

/** Beside the source; where a kernel is shown already, in its place, or beside that one. */
async function open(uri: vscode.Uri, where = { beside: false }): Promise<void> {
  const kernels = vscode.window.visibleTextEditors.filter(
    ({ document }) => document.uri.scheme === kernelScheme,
  );
  const active = kernels.find((editor) => editor === vscode.window.activeTextEditor);
  const shown = where.beside ? undefined : (active ?? kernels[0]);
  const viewColumn = shown?.viewColumn ?? vscode.ViewColumn.Beside;
  await vscode.window.showTextDocument(uri, { viewColumn, preserveFocus: true, preview: true });
}

/** What a node of the report names: the text itself. */
function entryOf(argument: unknown): KernelEntryId | null {
  const fields: Record<string, unknown> =
    typeof argument === "object" && argument !== null ? { ...argument } : {};
  const [uri, target, kernel, form, name] = ["uri", "target", "kernel", "form", "name"].map(
    (key) => fields[key],
  );
  const isNamed = typeof uri === "string" && typeof target === "string" && typeof kernel === "string";
  return isNamed && typeof form === "string" && typeof name === "string"
    ? { uri, target, kernel, form, name }
    : null;
}

/** What a lens names, or the line of the cursor. */
function placeOf(argument: unknown): KernelsAt | null {
  const fields = typeof argument === "object" && argument !== null ? argument : {};
  if ("uri" in fields && typeof fields.uri === "string") {
    return {
      uri: fields.uri,
      ...("target" in fields && typeof fields.target === "string" ? { target: fields.target } : {}),
      ...("line" in fields && typeof fields.line === "number" ? { line: fields.line } : {}),
      ...("last" in fields && typeof fields.last === "number" ? { last: fields.last } : {}),
    };
  }
  const editor = vscode.window.activeTextEditor;
  if (editor?.document.languageId !== "python" || editor.document.uri.scheme === kernelScheme) {
    return null;
  }
  const { start, end } = editor.selection;
  return { uri: editor.document.uri.toString(), line: start.line, last: end.line };
}
