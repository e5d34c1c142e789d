/**
 * The channel of the messages between editor and server, switched by `fuselight.trace.server`.
 *
 * Invariant: while the setting is not "off", the channel shows what the language client writes at level "trace", whatever
 * the channel's own level is; otherwise the user would have to change that level too.
 */

import * as vscode from "vscode";

export function createMessageLog(): vscode.LogOutputChannel {
  const channel = vscode.window.createOutputChannel("Fuselight Messages", { log: true });
  const levelChanged = new vscode.EventEmitter<vscode.LogLevel>();
  const level = () => {
    const setting = vscode.workspace.getConfiguration("fuselight").get<unknown>("trace.server");
    return setting === "messages" || setting === "verbose" ? vscode.LogLevel.Trace : vscode.LogLevel.Off;
  };
  const listener = vscode.workspace.onDidChangeConfiguration((change) => {
    if (change.affectsConfiguration("fuselight.trace.server")) {
      levelChanged.fire(level());
    }
  });
  return new Proxy(channel, {
    get(target, name) {
      switch (name) {
        case "logLevel":
          return level();
        case "onDidChangeLogLevel":
          return levelChanged.event;
        case "trace":
          return target.info.bind(target);
        case "dispose":
          return () => {
            listener.dispose();
            levelChanged.dispose();
            target.dispose();
          };
        default: {
          const value: unknown = Reflect.get(target, name);
          return typeof value === "function" ? value.bind(target) : value;
        }
      }
    },
  });
}
