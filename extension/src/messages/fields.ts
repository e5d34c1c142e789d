/** The fields of data that is not checked yet; none if it is not an object. Nothing of VS Code is imported. */
export function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? { ...value } : {};
}
