/**
 * Text in a notification: VS Code turns `[words](command:...)` into a link that runs a command.
 *
 * Invariant: nothing of VS Code is imported. The text reads as it was written, and no part of it is a link.
 */

export function notice(text: string): string {
  return text.replaceAll("](", "] (");
}
