/**
 * Pages next to the source: one panel for each subject, drawn from what the server answers, restored after a reload.
 *
 * Invariant: a page loads only its own script and style sheet, and shows what it is sent as text. While one request to
 * the server is open, later ones become a single one. A hidden page loses its content and asks for it when shown again.
 */

import { randomBytes } from "node:crypto";
import * as vscode from "vscode";
import { fieldsOf } from "../messages/fields";
import type { PagePlace } from "../messages/page_types";
import { textOf, warn } from "../workbench/say";
import { coalesce } from "./coalesce";
import { pageHtml } from "./page";

/** What a page shows: a target of a file, in the state that the user has chosen. */
export interface Subject {
  readonly uri: string;
  readonly target: string | null;
}

export interface Page<Shown extends Subject, Content> {
  readonly panel: vscode.WebviewPanel;
  shown: Shown;
  /** What was drawn last. */
  content: Content | null;
  /** Asks the server and draws its answer. */
  draw(): Promise<void>;
}

export interface PageKind<Shown extends Subject, Content> {
  readonly viewType: string;
  /** Name of the script and of the style sheet in `dist/`, without their endings. */
  readonly asset: string;
  readonly preserveFocus: boolean;
  titleOf(shown: Shown): string;
  /** What a page showed before a reload; null for a state that is not one of ours. */
  restore(state: unknown): Shown | null;
  fetch(shown: Shown): Promise<Content>;
  /** Handles a message of the page; "ready" is handled here. */
  receive(page: Page<Shown, Content>, message: unknown): Promise<void>;
  /** The user has closed a page. */
  closed?(shown: Shown): void;
}

export type WebviewHost<Shown extends Subject, Content> = ReturnType<
  typeof createWebviewHost<Shown, Content>
>;

export function createWebviewHost<Shown extends Subject, Content>(
  extension: vscode.Uri,
  kind: PageKind<Shown, Content>,
) {
  const pages = new Set<Page<Shown, Content>>();
  const root = vscode.Uri.joinPath(extension, "extension", "dist");
  const options: vscode.WebviewOptions = { enableScripts: true, localResourceRoots: [root] };

  function adopt(panel: vscode.WebviewPanel, shown: Shown): void {
    const page: Page<Shown, Content> = { panel, shown, content: null, draw: coalesce(() => draw(page)) };
    pages.add(page);
    panel.onDidDispose(() => {
      if (pages.delete(page)) {
        kind.closed?.(page.shown);
      }
    });
    panel.webview.onDidReceiveMessage((message: unknown) => receive(page, message));
    panel.webview.options = options;
    panel.webview.html = htmlOf(panel.webview, kind.titleOf(shown));
  }

  async function draw(page: Page<Shown, Content>): Promise<void> {
    const { shown } = page;
    const content = await kind.fetch(shown);
    if (page.shown !== shown || !pages.has(page)) {
      return; // the user chose something else, or closed the page
    }
    page.content = content;
    page.panel.title = kind.titleOf(shown);
    void page.panel.webview.postMessage({ type: "draw", of: shown, page: content }); // may never settle on a hidden page
  }

  async function receive(page: Page<Shown, Content>, message: unknown): Promise<void> {
    try {
      await (fieldsOf(message)["type"] === "ready" ? page.draw() : kind.receive(page, message));
    } catch (error) {
      void warn(textOf(error));
    }
  }

  function htmlOf(webview: vscode.Webview, title: string): string {
    const at = (...parts: string[]) =>
      webview.asWebviewUri(vscode.Uri.joinPath(extension, "extension", ...parts)).toString();
    return pageHtml({
      source: webview.cspSource,
      nonce: randomBytes(16).toString("base64url"),
      script: at("dist", `${kind.asset}.js`),
      style: at("dist", `${kind.asset}.css`),
      title,
    });
  }

  const serializer = vscode.window.registerWebviewPanelSerializer(kind.viewType, {
    deserializeWebviewPanel(panel, state: unknown) {
      const shown = kind.restore(state);
      if (shown === null) {
        panel.dispose();
      } else {
        adopt(panel, shown);
      }
      return Promise.resolve();
    },
  });

  return {
    pages,
    /** Shows the page of `shown`: the open one of the same target, which `change` may alter, or a new one. */
    async show(shown: Shown, change: (page: Page<Shown, Content>) => void = () => undefined): Promise<void> {
      const page = [...pages].find((one) => isSameTarget(one.shown, shown));
      if (page !== undefined) {
        change(page);
        page.panel.reveal(undefined, kind.preserveFocus);
        await page.draw();
        return;
      }
      const where = { viewColumn: vscode.ViewColumn.Beside, preserveFocus: kind.preserveFocus };
      const title = kind.titleOf(shown);
      adopt(
        vscode.window.createWebviewPanel(kind.viewType, title, where, { ...options, enableFindWidget: true }),
        shown,
      );
    },
    /** Draws the visible pages for which `wanted` holds. */
    async redraw(wanted: (page: Page<Shown, Content>) => boolean): Promise<void> {
      const drawn = [...pages].filter((page) => page.panel.visible && wanted(page));
      // A page whose request fails keeps its content; the server shows a message.
      await Promise.allSettled(drawn.map((page) => page.draw()));
    },
    dispose() {
      serializer.dispose();
      const open = [...pages];
      pages.clear(); // the session ends: the user has closed none of them
      for (const { panel } of open) {
        panel.dispose();
      }
    },
  };
}

export function isSameTarget(left: Subject, right: Subject): boolean {
  return left.target === right.target && isSameFile(left.uri, right.uri);
}

/** The server and VS Code may escape the same URI differently. */
export function isSameFile(left: string, right: string): boolean {
  return vscode.Uri.parse(left).toString() === vscode.Uri.parse(right).toString();
}

/** Shows lines of a file in the group that has the file open, else next to the page. */
export async function goToSource(
  uri: vscode.Uri,
  selection: vscode.Range | null,
  from: vscode.WebviewPanel,
): Promise<void> {
  const editor = vscode.window.visibleTextEditors.find(({ document }) =>
    isSameFile(document.uri.toString(), uri.toString()),
  );
  const other = from.viewColumn === vscode.ViewColumn.One ? vscode.ViewColumn.Beside : vscode.ViewColumn.One;
  const viewColumn = editor?.viewColumn ?? other;
  await vscode.window.showTextDocument(uri, { viewColumn, ...(selection ? { selection } : {}) });
}

/** Shows the line of a place of a page, with the cursor at its text. */
export async function goToPlace({ uri, line }: PagePlace, from: vscode.WebviewPanel): Promise<void> {
  const document = await vscode.workspace.openTextDocument(vscode.Uri.parse(uri));
  const start = document.lineAt(Math.min(line, document.lineCount - 1));
  const at = new vscode.Position(start.lineNumber, start.firstNonWhitespaceCharacterIndex);
  await goToSource(document.uri, new vscode.Range(at, at), from);
}
