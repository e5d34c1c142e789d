/**
 * "Show the Benchmark": a page beside the source with what was measured of a target.
 *
 * Invariant: the server makes what is shown; it is asked again whenever it says that something has changed, one question
 * a page at a time. The page loads nothing but its own script and style sheet, what it is sent is drawn as text, and what
 * it sends is checked.
 */

import { randomBytes } from "node:crypto";
import * as vscode from "vscode";
import { chooseExported, saveExported, savePicture } from "./bench_export";
import type {
  BenchShown,
  BenchTarget,
  DrawPage,
  Exported,
  ExportFormat,
  MeasuredPage,
  Place,
} from "./bench_messages";
import { benchPage } from "./bench_page";
import { benchShownIn, benchTitleOf, pageMessageIn, renamedUri } from "./bench_target";
import { oneAtATime } from "./one_at_a_time";

export interface BenchView extends vscode.Disposable {
  show(of: BenchTarget): Promise<void>;
  /** What is known of `of` is something else now; without it, anything may be. */
  changed(of?: BenchTarget): Promise<void>;
}

export interface BenchParts {
  readonly extension: vscode.Uri;
  /** Asks the server; null while there is none. */
  readonly fetch: (of: BenchShown) => Promise<MeasuredPage | null>;
  readonly exported: (of: BenchShown, format: ExportFormat) => Promise<Exported | null>;
  readonly benchmark: (of: BenchTarget) => unknown;
  readonly cancel: (of: BenchTarget) => unknown;
  /** Removes a run from the history. */
  readonly forget: (of: BenchTarget, run: string) => unknown;
}

interface Shown {
  readonly panel: vscode.WebviewPanel;
  of: BenchShown;
  /** Asks the server and draws its answer: while one question is open, those that come make one more. */
  readonly draw: () => Promise<void>;
}

export const benchViewType = "fuselight.benchmark";

export function createBenchView(parts: BenchParts): BenchView {
  const { extension, fetch, exported, benchmark, cancel, forget } = parts;
  const open = new Set<Shown>();
  const folders = ["dist", "media"].map((name) => vscode.Uri.joinPath(extension, "extension", name));
  const options: vscode.WebviewOptions = { enableScripts: true, localResourceRoots: folders };

  async function draw(one: Shown): Promise<void> {
    const { of } = one;
    const page = await asked(of);
    if (one.of === of && open.has(one)) {
      const message: DrawPage = { type: "draw", of, page };
      void one.panel.webview.postMessage(message); // to a page that is hidden it may never come
    }
  }

  async function asked(of: BenchShown): Promise<MeasuredPage> {
    try {
      return (await fetch(of)) ?? without(of, "The Fuselight language server is not running yet.");
    } catch (error) {
      return without(of, `The Fuselight language server does not answer: ${wordsOf(error)}`);
    }
  }

  function adopt(panel: vscode.WebviewPanel, of: BenchShown): void {
    const one: Shown = { panel, of, draw: oneAtATime(() => draw(one)) };
    open.add(one);
    panel.onDidDispose(() => open.delete(one));
    panel.webview.onDidReceiveMessage((message: unknown) => answer(one, message));
    panel.webview.options = options;
    panel.webview.html = html(panel.webview, extension);
  }

  async function answer(one: Shown, value: unknown): Promise<void> {
    try {
      await act(one, value);
    } catch (error) {
      void vscode.window.showWarningMessage(wordsOf(error));
    }
  }

  async function act(one: Shown, value: unknown): Promise<void> {
    const message = pageMessageIn(value);
    switch (message?.type) {
      case "ready":
        return one.draw();
      case "open":
        return goTo(message.place, one.panel);
      case "benchmark":
        one.of = { ...one.of, run: null }; // the new one, when it is there
        await benchmark({ uri: one.of.uri, target: one.of.target });
        return one.draw();
      case "cancel":
        await cancel({ uri: one.of.uri, target: one.of.target });
        return;
      case "forget": {
        const text = "Remove this benchmark from the history? That cannot be undone.";
        if ((await vscode.window.showWarningMessage(text, { modal: true }, "Remove")) === "Remove") {
          await forget({ uri: one.of.uri, target: one.of.target }, message.run);
          one.of = { ...one.of, run: null };
          await one.draw();
        }
        return;
      }
      case "choose":
        one.of = { ...one.of, run: message.run, with: message.with };
        return one.draw();
      case "chooseFile": {
        const file = await chooseExported(one.of);
        one.of = { ...one.of, with: file ?? one.of.with };
        return one.draw(); // also where none was chosen: the page shows what is compared
      }
      case "export":
        return saveExported(one.of, await exported(one.of, message.format));
      case "picture":
        return savePicture(one.of, message);
    }
  }

  const serializer = vscode.window.registerWebviewPanelSerializer(benchViewType, {
    deserializeWebviewPanel(panel, state: unknown) {
      const of = benchShownIn(state);
      if (of === null) {
        panel.dispose();
      } else {
        adopt(panel, of);
      }
      return Promise.resolve();
    },
  });

  /** The server moves what is kept of it, and then says that something has changed. */
  const renames = vscode.workspace.onDidRenameFiles(({ files }) => {
    for (const one of open) {
      for (const { oldUri, newUri } of files) {
        const uri = renamedUri(textOf(one.of.uri), oldUri.toString(), newUri.toString());
        if (uri !== null) {
          one.of = { ...one.of, uri };
          one.panel.title = benchTitleOf(one.of);
          void one.draw();
        }
      }
    }
  });

  return {
    async show(of) {
      const there = [...open].find((one) => same(one.of, of));
      if (there !== undefined) {
        there.of = { ...there.of, run: null }; // what the lens tells of, not a run that was chosen once
        there.panel.reveal(undefined, true);
        await there.draw();
        return;
      }
      const where = { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true };
      const panel = vscode.window.createWebviewPanel(benchViewType, benchTitleOf(of), where, {
        ...options,
        enableFindWidget: true,
      });
      adopt(panel, { ...of, run: null, with: null });
    },
    async changed(of) {
      // A page that is hidden is empty; it asks when it is seen again.
      const wanted = [...open].filter((one) => one.panel.visible && (of === undefined || same(one.of, of)));
      await Promise.all(wanted.map((one) => one.draw()));
    },
    dispose() {
      for (const one of [serializer, renames, ...[...open].map(({ panel }) => panel)]) {
        one.dispose();
      }
    },
  };
}

function same(left: BenchTarget, right: BenchTarget): boolean {
  return left.target === right.target && textOf(left.uri) === textOf(right.uri);
}

/** As VS Code writes it: the server may write the same otherwise. */
function textOf(uri: string): string {
  return vscode.Uri.parse(uri).toString();
}

function without({ uri, target, run }: BenchShown, message: string): MeasuredPage {
  const flags = { found: false, running: false, stale: false, partial: false };
  const nothing = { when: "", work: "", inputs: [], verdict: [], machine: [], notes: [], configurations: [] };
  const of = { run, title: target || "__main__", message, target, path: "", uri };
  return { ...flags, ...of, ...nothing, profiles: {}, history: [], comparison: null };
}

function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** To a line in the group where its file is shown, or beside the page. */
async function goTo({ uri, line }: Place, from: vscode.WebviewPanel): Promise<void> {
  const file = vscode.Uri.parse(uri);
  const editor = vscode.window.visibleTextEditors.find(
    ({ document }) => document.uri.toString() === file.toString(),
  );
  const first = from.viewColumn === vscode.ViewColumn.One ? vscode.ViewColumn.Beside : vscode.ViewColumn.One;
  const document = await vscode.workspace.openTextDocument(file);
  const start = document.lineAt(Math.min(line, document.lineCount - 1));
  const at = new vscode.Position(start.lineNumber, start.firstNonWhitespaceCharacterIndex);
  await vscode.window.showTextDocument(document, {
    viewColumn: editor?.viewColumn ?? first,
    selection: new vscode.Range(at, at),
  });
}

function html(webview: vscode.Webview, extension: vscode.Uri): string {
  const at = (...parts: string[]) =>
    webview.asWebviewUri(vscode.Uri.joinPath(extension, "extension", ...parts)).toString();
  return benchPage({
    source: webview.cspSource,
    nonce: randomBytes(16).toString("base64url"),
    script: at("dist", "bench.js"),
    style: at("media", "bench.css"),
  });
}
