/** The library of the language client, with servers that a test lets hang, crash, or fail to start. */

import { Emitter } from "./vscode.ts";

export const State = { Stopped: 1, Running: 2, Starting: 3, StartFailed: 4 } as const;
type State = (typeof State)[keyof typeof State];

/** What the extension changes of the library's behavior. */
interface Options {
  readonly middleware: {
    executeCommand(name: string, args: unknown[], next: (name: string) => unknown): Promise<unknown>;
  };
}

export const clients: LanguageClient[] = [];
/** What the next servers do when they are started and stopped. */
export const behavior = { start: () => Promise.resolve(), stop: () => Promise.resolve() };

export class LanguageClient {
  state: State = State.Stopped;
  isDisposed = false;
  readonly sent: unknown[] = [];
  answer: () => Promise<unknown> = () => Promise.resolve(null);
  readonly code2ProtocolConverter = { asUri: String };
  private readonly changed = new Emitter<{ oldState: State; newState: State }>();
  readonly onDidChangeState = this.changed.event;

  readonly options: Options;

  constructor(_id: string, _name: string, _server: unknown, options: Options) {
    this.options = options;
    clients.push(this);
  }
  /** The state changes as after a crash and the start that the library makes then. */
  become(newState: State): void {
    const oldState = this.state;
    this.state = newState;
    this.changed.fire({ oldState, newState });
  }
  async start(): Promise<void> {
    if (this.state !== State.Running) {
      this.become(State.Starting);
      try {
        await behavior.start();
      } catch (error) {
        this.become(State.StartFailed);
        throw error;
      }
      this.become(State.Running);
    }
  }
  isRunning = () => this.state === State.Running;
  needsStop = () => this.state === State.Running || this.state === State.Starting;
  async stop(): Promise<void> {
    this.become(State.Stopped);
    await behavior.stop();
  }
  dispose(): Promise<void> {
    this.isDisposed = true;
    return Promise.resolve();
  }
  sendNotification(_type: unknown, params: unknown): Promise<void> {
    this.sent.push(params);
    return Promise.resolve();
  }
  sendRequest = () => this.answer();
}

class Type {
  readonly type = this;
  readonly method: string;
  constructor(method: string) {
    this.method = method;
  }
}
export class RequestType extends Type {}
export class NotificationType extends Type {}
export const DidSaveTextDocumentNotification = { type: new Type("textDocument/didSave") };
export const MessageType = { Error: 1, Warning: 2 };
export const RevealOutputChannelOn = { Never: 4 };
