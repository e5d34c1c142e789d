/** VS Code as the preview of a fix sees it: documents, tabs, and messages whose buttons a test presses. */

import { Emitter } from "./vscode.ts";

interface Address {
  readonly path: string;
  toString(): string;
}

export const Uri = {
  parse: (text: string): Address => ({ path: text.replace(/^\w+:\/\//, ""), toString: () => text }),
  from: ({ scheme, path, query }: { scheme: string; path: string; query: string }): Address => ({
    path,
    toString: () => `${scheme}:${path}?${query}`,
  }),
};

export const Disposable = {
  from: (...all: { dispose(): unknown }[]) => ({
    dispose: () => {
      for (const one of all) {
        one.dispose();
      }
    },
  }),
};

export class TabInputTextDiff {
  readonly modified: Address;
  constructor(modified: Address) {
    this.modified = modified;
  }
}

export const TextEdit = { replace: (range: unknown, newText: string) => ({ range, newText }) };
export class WorkspaceEdit {
  readonly files: string[] = [];
  set(uri: Address): void {
    this.files.push(uri.toString());
  }
}

const documentChanged = new Emitter<object>();
const tabsChanged = new Emitter<object>();
const tabs: { input: TabInputTextDiff }[] = [];

/** What a test looks at and sets. */
export const seen = {
  /** The files that were edited. */
  applied: [] as string[],
  /** Messages, each with a function that presses one of its buttons. */
  messages: [] as { text: string; press: (button: string) => void }[],
  context: false as unknown,
  /** The error with which no diff opens. */
  opens: null as Error | null,
  previews: () => tabs.map(({ input }) => input.modified.toString()),
  text: (uri: string): string => content(Uri.parse(uri)),
};
let content: (uri: Address) => string = () => "";

export const workspace = {
  openTextDocument: async (uri: Address) => ({
    uri,
    version: 1,
    languageId: "python",
    getText: () => "a\n",
    offsetAt: () => 0,
  }),
  onDidChangeTextDocument: documentChanged.event,
  registerTextDocumentContentProvider: (
    _scheme: string,
    provider: { provideTextDocumentContent: (uri: Address) => string },
  ) => {
    content = provider.provideTextDocumentContent;
    return { dispose: () => undefined };
  },
  applyEdit: (edit: WorkspaceEdit) => {
    seen.applied.push(...edit.files);
    return Promise.resolve(true);
  },
};
export const window = {
  tabGroups: {
    get all() {
      return [{ tabs }];
    },
    onDidChangeTabs: tabsChanged.event,
    close: (closed: typeof tabs) => {
      for (const tab of closed) {
        tabs.splice(tabs.indexOf(tab), 1);
      }
      return Promise.resolve(true);
    },
  },
  showInformationMessage: (text: string) =>
    new Promise((press: (button: string) => void) => void seen.messages.push({ text, press })),
};
export const commands = {
  executeCommand(name: string, ...args: unknown[]): Promise<void> {
    if (name === "setContext") {
      seen.context = args[1];
    } else if (seen.opens !== null) {
      return Promise.reject(seen.opens);
    } else {
      tabs.push({ input: new TabInputTextDiff(args[1] as Address) });
    }
    return Promise.resolve();
  },
};
