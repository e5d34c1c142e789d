/**
 * The report of the active file as a tree: targets, frames, graphs, breaks, guards, recompilations.
 *
 * Invariant: the server makes the nodes, and a node with a position opens it. The view keeps the last Python file while
 * a page, an output panel or a generated kernel is active.
 */

import * as vscode from "vscode";
import { sourceOf } from "../cursor/source";
import type { GraphTarget } from "../messages/graphs";
import { reportTreeRequest } from "../messages/protocol";
import type { ReportNode } from "../messages/server_types";
import { urisIn } from "../messages/uri_list";
import type { Lifecycle } from "../server/lifecycle";
import { usesTorch } from "./uses_torch";

const uriList = "text/uri-list";
/** How often, and how long after another, a target is selected while results arrive. */
const attempts = 5;
const pauseMs = 200;

export type ReportView = ReturnType<typeof createReportView>;

/** Does something with files and folders that are dropped on the view. */
type Drop = (uris: readonly vscode.Uri[]) => Promise<void>;

export function createReportView(lifecycle: Lifecycle, drop: Drop) {
  const changed = new vscode.EventEmitter<undefined>();
  const parents = new Map<ReportNode, ReportNode>();
  let shown: vscode.Uri | undefined;
  let roots: readonly ReportNode[] = [];

  const provider: vscode.TreeDataProvider<ReportNode> = {
    onDidChangeTreeData: changed.event,
    getChildren: (node) => [...(node?.children ?? roots)],
    getParent: (node) => parents.get(node),
    getTreeItem: (node) => treeItem(node, lifecycle.toRange(node.range), parents.has(node)),
  };
  const tree = vscode.window.createTreeView("fuselight.report", {
    treeDataProvider: provider,
    showCollapseAll: true,
    dragAndDropController: {
      dragMimeTypes: [],
      dropMimeTypes: [uriList],
      async handleDrop(_target, data) {
        const list = (await data.get(uriList)?.asString()) ?? "";
        const uris = urisIn(list).map((uri) => vscode.Uri.parse(uri));
        if (uris.length > 0) {
          await drop(uris);
        }
      },
    },
  });

  async function load(uri: vscode.Uri | undefined): Promise<void> {
    shown = uri;
    void vscode.commands.executeCommand("setContext", "fuselight.hasPythonFile", uri !== undefined);
    const answer = uri ? await lifecycle.request(reportTreeRequest, { uri: uri.toString() }) : null;
    if (shown?.toString() !== uri?.toString()) {
      return; // another file became active in between
    }
    roots = answer?.nodes ?? [];
    parents.clear();
    connect(roots, parents);
    tree.description = uri && roots.length > 0 ? vscode.workspace.asRelativePath(uri) : "";
    void vscode.commands.executeCommand("setContext", "fuselight.hasReport", roots.length > 0);
    changed.fire(undefined);
  }

  /** Selects the target of that name, else the first one. A result that arrives meanwhile replaces all nodes. */
  async function select(name: string): Promise<void> {
    for (let attempt = 0; attempt < attempts; attempt++) {
      const found = roots.find((root) => root.target?.target === name) ?? roots[0];
      if (!found) {
        return;
      }
      try {
        await tree.reveal(found, { select: true, focus: true, expand: 2 });
        return;
      } catch {
        await new Promise((resolve) => setTimeout(resolve, pauseMs)); // until the tree has the new nodes
      }
    }
  }

  /** Runs are offered only in a file that can have targets. */
  function offerRuns(document: vscode.TextDocument | undefined): void {
    if (document?.languageId === "python") {
      void vscode.commands.executeCommand("setContext", "fuselight.usesTorch", usesTorch(document.getText()));
    }
  }

  function follow(editor: vscode.TextEditor | undefined): void {
    offerRuns(editor?.document);
    const source = editor && sourceOf(editor.document.uri);
    // A generated text belongs to its source file; an output panel or a page leaves the view as it is.
    const isPython = source !== editor?.document.uri || editor?.document.languageId === "python";
    if (source && isPython && source.toString() !== shown?.toString()) {
      void load(source);
    }
  }

  const subscriptions = vscode.Disposable.from(
    vscode.window.onDidChangeActiveTextEditor(follow),
    vscode.workspace.onDidSaveTextDocument((document) => {
      if (document === vscode.window.activeTextEditor?.document) {
        offerRuns(document);
      }
    }),
    vscode.workspace.onDidCloseTextDocument((document) => {
      if (document.uri.toString() === shown?.toString()) {
        void load(undefined);
        follow(vscode.window.activeTextEditor);
      }
    }),
    vscode.workspace.onDidCloseNotebookDocument(({ uri }) => {
      if (uri.toString() === shown?.toString()) {
        void load(undefined);
        follow(vscode.window.activeTextEditor);
      }
    }),
    tree,
    changed,
  );
  follow(vscode.window.activeTextEditor);

  return {
    /** The report of `uri` changed; without `uri`, any may have. */
    changed(uri?: string): void {
      if (shown && (uri === undefined || vscode.Uri.parse(uri).toString() === shown.toString())) {
        void load(shown);
      }
    },
    /** Opens the view at a target. */
    async reveal(uri: vscode.Uri, target: string | null): Promise<void> {
      await load(uri);
      await vscode.commands.executeCommand("fuselight.report.focus");
      // Commands may name the `__main__` block so, which the report names "".
      await select(target === "__main__" ? "" : (target ?? ""));
    },
    /** The target that a node of the tree belongs to; null for anything else. */
    targetOf(node: unknown): GraphTarget | null {
      let root = [...parents.keys(), ...roots].find((one) => one === node);
      for (let above = root; above !== undefined; above = parents.get(above)) {
        root = above;
      }
      return root?.target ?? null;
    },
    /** The file whose report is shown. */
    shown: () => shown,
    /** The shown nodes, for tests. */
    nodes: () => roots,
    dispose: () => subscriptions.dispose(),
  };
}

function connect(nodes: readonly ReportNode[], parents: Map<ReportNode, ReportNode>): void {
  for (const node of nodes) {
    for (const child of node.children) {
      parents.set(child, node);
    }
    connect(node.children, parents);
  }
}

function treeItem(node: ReportNode, range: vscode.Range | null, isChild: boolean): vscode.TreeItem {
  const open = isChild ? vscode.TreeItemCollapsibleState.Collapsed : vscode.TreeItemCollapsibleState.Expanded;
  const item = new vscode.TreeItem(
    node.label,
    node.children.length > 0 ? open : vscode.TreeItemCollapsibleState.None,
  );
  item.id = node.id;
  item.description = node.description;
  item.tooltip = node.tooltip || node.label;
  item.contextValue = node.contextValue;
  item.accessibilityInformation = { label: node.accessibilityLabel };
  if (node.icon !== "") {
    item.iconPath = new vscode.ThemeIcon(node.icon);
  }
  if (node.kernel) {
    item.command = { title: "Show", command: "fuselight.showKernel", arguments: [node.kernel] };
  } else if (node.uri !== null) {
    const options = range ? { selection: range } : {};
    item.command = {
      title: "Go to Line",
      command: "vscode.open",
      arguments: [vscode.Uri.parse(node.uri), options],
    };
  }
  return item;
}
