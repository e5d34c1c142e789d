/**
 * "Show Generated Kernel": chooses a kernel, opens it next to the source, and switches between its forms.
 *
 * Invariant: where there is no kernel, a message says what to do.
 */

import * as vscode from "vscode";
import { linesAtCursor } from "../cursor/cursor";
import { kernelScheme } from "../cursor/kernel_uri";
import { kernelOf, kernelUri } from "../cursor/source";
import { fieldsOf } from "../messages/fields";
import { kernelDocumentRequest, kernelsAtRequest } from "../messages/protocol";
import type { KernelEntry, KernelsAtParams, NodeKernel } from "../messages/server_types";
import { spokenTarget } from "../messages/target_name";
import type { Lifecycle } from "../server/lifecycle";
import { inform } from "../workbench/say";
import type { KernelDocuments } from "./documents";
import type { KernelMarks } from "./marks";

const forms: Record<string, string> = {
  source: "Source of the kernel",
  ttir: "TTIR: Triton IR",
  ttgir: "TTGIR: Triton IR with GPU layouts",
  llir: "LLVM IR",
  ptx: "PTX: NVIDIA virtual assembly",
  sass: "SASS: NVIDIA machine code",
  amdgcn: "AMDGCN: AMD machine code",
  wrapper: "Wrapper that launches the graph's kernels",
  joint: "Joint graph of forward and backward",
  script: "Standalone script that checks and times the kernel",
  aten: "ATen graph that the kernels were generated from",
};

export type KernelView = ReturnType<typeof createKernelView>;

export function createKernelView(lifecycle: Lifecycle, documents: KernelDocuments, marks: KernelMarks) {
  async function fetch(at: KernelsAtParams): Promise<readonly KernelEntry[] | null> {
    const answer = await lifecycle.request(kernelsAtRequest, at);
    if (answer === null) {
      await lifecycle.warnNotRunning();
    }
    return answer?.kernels ?? null;
  }

  async function show(argument: unknown): Promise<void> {
    const named = entryOf(argument);
    if (named !== null) {
      await openEntry(named);
      return;
    }
    const at = placeOf(argument);
    if (at === null) {
      void inform("Open a Python file to show the kernels of a line.");
      return;
    }
    const found = await fetch(at);
    if (found === null) {
      return; // a message has said that the server does not run
    }
    if (found.length === 0) {
      await nothing(at);
      return;
    }
    const sources = found.filter((one) => one.form === "source");
    const chosen = found.length === 1 ? found[0] : sources.length === 1 ? sources[0] : await pick(found);
    await openEntry(chosen);
    const first = at.line ?? null;
    if (chosen !== undefined && argument !== undefined && first !== null) {
      marks.click({ uri: vscode.Uri.parse(at.uri).toString(), first, last: at.last ?? first });
    }
  }

  async function nothing(at: KernelsAtParams): Promise<void> {
    const all = (at.line ?? null) === null ? [] : ((await fetch({ uri: at.uri })) ?? []);
    const generate = "Generate Kernels";
    const others = "Show Kernels of Other Lines";
    const text =
      all.length > 0
        ? "No kernel was generated from this line."
        : "No kernels were generated for this file yet. Press Kernels above a target.";
    const chosen = await inform(text, all.length > 0 ? others : generate);
    if (chosen === generate) {
      await vscode.commands.executeCommand("fuselight.kernels");
    } else if (chosen === others) {
      await openEntry(await pick(all));
    }
  }

  /** Shows the active kernel in the form `to`, or in one that the user picks; `beside` opens it in another group. */
  async function switchForm(to: unknown, { beside } = { beside: false }): Promise<void> {
    const uri = vscode.window.activeTextEditor?.document.uri;
    const id = uri ? kernelOf(uri) : null;
    const offered = uri ? (documents.of(uri)?.forms ?? []) : [];
    if (uri === undefined || id === null || offered.length === 0) {
      void inform("Open a generated kernel to switch its form.");
      return;
    }
    const entries = offered.map((form) => ({
      label: forms[form.form] ?? form.form,
      description: form.form === id.form ? "current" : "",
      form,
    }));
    const named = entries.find(({ form }) => form.form === to);
    const title = beside ? "Open which form next to the kernel?" : "Show which form of the kernel?";
    const chosen = named ?? (await vscode.window.showQuickPick(entries, { title }));
    if (chosen !== undefined) {
      await open(kernelUri({ ...id, form: chosen.form.form }, chosen.form.name), { beside });
    }
  }

  /** Writes the script of a kernel's document, or of the active one, to the file `to`, or to one that the user names. */
  async function saveScript(document: unknown, to: unknown): Promise<void> {
    // A button in an editor's title passes the document that it belongs to.
    const named = document instanceof vscode.Uri ? document : vscode.window.activeTextEditor?.document.uri;
    const id = named ? kernelOf(named) : null;
    const script = named ? documents.of(named)?.forms.find(({ form }) => form === "script") : undefined;
    const content =
      id && script ? await lifecycle.request(kernelDocumentRequest, { ...id, form: script.form }) : null;
    if (id === null || script === undefined || !content?.found) {
      void inform(
        id === null
          ? "Open a generated kernel to save it as a script."
          : "This kernel cannot run as a script.",
      );
      return;
    }
    const suggested = vscode.Uri.joinPath(vscode.Uri.parse(id.uri), "..", script.name);
    const target = to instanceof vscode.Uri ? to : await askWhere(suggested);
    if (target !== undefined) {
      await vscode.workspace.fs.writeFile(target, Buffer.from(content.text, "utf8"));
      await vscode.window.showTextDocument(target, { preview: false });
    }
  }

  return { show, switchForm, saveScript };
}

function askWhere(suggested: vscode.Uri): Thenable<vscode.Uri | undefined> {
  const title = "Save the Kernel as a Standalone Script";
  return vscode.window.showSaveDialog({ title, defaultUri: suggested, filters: { Python: ["py"] } });
}

async function pick(found: readonly KernelEntry[]): Promise<KernelEntry | undefined> {
  // The names of kernels fill a line: what follows one in it would be cut off.
  const entries = found.map((entry) => ({
    label: entry.label,
    detail: `${spokenTarget(entry.target)}: ${entry.description}`,
    entry,
  }));
  const title = "Show which generated kernel?";
  return (await vscode.window.showQuickPick(entries, { title, matchOnDetail: true }))?.entry;
}

async function openEntry(entry: NodeKernel | undefined): Promise<void> {
  if (entry !== undefined) {
    await open(kernelUri(entry, entry.name));
  }
}

/** Opens next to the source, in place of the shown kernel, or next to that kernel. */
async function open(uri: vscode.Uri, where = { beside: false }): Promise<void> {
  const kernels = vscode.window.visibleTextEditors.filter(
    ({ document }) => document.uri.scheme === kernelScheme,
  );
  const active = kernels.find((editor) => editor === vscode.window.activeTextEditor);
  const shown = where.beside ? undefined : (active ?? kernels[0]);
  const viewColumn = shown?.viewColumn ?? vscode.ViewColumn.Beside;
  await vscode.window.showTextDocument(uri, { viewColumn, preserveFocus: true, preview: true });
}

/** The text that a node of the report names. */
function entryOf(argument: unknown): NodeKernel | null {
  const { uri, target, kernel, form, name } = fieldsOf(argument);
  const isNamed = typeof uri === "string" && typeof target === "string" && typeof kernel === "string";
  return isNamed && typeof form === "string" && typeof name === "string"
    ? { uri, target, kernel, form, name }
    : null;
}

/** The lines that a code lens names, or the line of the cursor. */
function placeOf(argument: unknown): KernelsAtParams | null {
  const { uri, target, line, last } = fieldsOf(argument);
  if (typeof uri !== "string") {
    return linesAtCursor();
  }
  return {
    uri,
    ...(typeof target === "string" ? { target } : {}),
    ...(typeof line === "number" ? { line } : {}),
    ...(typeof last === "number" ? { last } : {}),
  };
}
