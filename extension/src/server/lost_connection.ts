/**
 * Tells an answer that never came, because the server ended, from one that is an error.
 *
 * Invariant: nothing of VS Code is imported.
 */

import { fieldsOf } from "../messages/fields.ts";

/** As in vscode-jsonrpc: the connection could not be written or read, or it ended while a request was open. */
const lost: ReadonlySet<unknown> = new Set([-32099, -32098, -32097, -32096]);

export function isLostConnection(error: unknown): boolean {
  return lost.has(fieldsOf(error)["code"]);
}
