/** Messages between the extension and every page of ours. Types only: the pages' bundles have nothing of VS Code. */

/** To a page: what it shows, and the content that the server made for it. */
export interface DrawMessage<Shown, Content> {
  readonly type: "draw";
  readonly of: Shown;
  readonly page: Content;
}

/** From a page that has loaded: it asks for its content. */
export interface ReadyMessage {
  readonly type: "ready";
}
