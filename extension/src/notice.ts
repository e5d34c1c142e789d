/**
 * Text of others in a notification: VS Code makes links of `[words](command:...)` there, which run a command when
 * pressed.
 *
 * Invariant: nothing of VS Code is imported; what is shown reads as it was written, and no part of it can be pressed.
 */

export function notice(text: string): string {
  return text.replaceAll("](", "] (");
}
