/** VS Code's side of a page: null in an exported page, which stands alone. */

export interface Host<Message, State> {
  postMessage(message: Message): void;
  getState(): State | undefined;
  setState(state: State): void;
}

declare function acquireVsCodeApi(): unknown;

/** Also ends the line that says that the page is loading, with the first content. */
export function acquireHost<Message, State>(): Host<Message, State> | null {
  if (typeof acquireVsCodeApi === "undefined") {
    return null;
  }
  window.addEventListener("message", ({ data }: MessageEvent<{ type: string }>) => {
    if (data.type === "draw") {
      document.getElementById("loading")?.remove();
    }
  });
  return acquireVsCodeApi() as Host<Message, State>;
}
