/** The URIs in a dropped `text/uri-list`, without its comments. Nothing of VS Code is imported. */
export function urisIn(list: string): readonly string[] {
  return list.split(/\r?\n/).filter((line) => line !== "" && !line.startsWith("#"));
}
