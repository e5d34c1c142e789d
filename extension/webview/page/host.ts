/** VS Code's side of a page: null in an exported page, which stands alone. */

export interface Host<Message, State> {
  postMessage(message: Message): void;
  getState(): State | undefined;
  setState(state: State): void;
}

declare function acquireVsCodeApi(): unknown;

export function acquireHost<Message, State>(): Host<Message, State> | null {
  return typeof acquireVsCodeApi === "undefined" ? null : (acquireVsCodeApi() as Host<Message, State>);
}
