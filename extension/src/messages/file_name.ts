/** The name of a file, for people. Nothing of VS Code is imported. */
export function fileOf(uri: string): string {
  const name = uri.slice(uri.lastIndexOf("/") + 1);
  try {
    return decodeURIComponent(name);
  } catch {
    return name; // not an escape sequence, though it looks like one
  }
}
