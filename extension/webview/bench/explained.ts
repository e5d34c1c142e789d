/**
 * Explanations of the page's terms, for people who train models and have never read a compiler's log.
 *
 * Invariant: the texts hold on every device and contain no numbers.
 */

const modes: Readonly<Record<string, string>> = {
  eager: "without compilation",
  written: "the decorators and torch.compile calls of the source",
  default: "torch.compile with its default mode",
  dynamic: "compiled for dynamic sizes",
  "reduce-overhead": "on a GPU, replays kernels as CUDA graphs",
  "max-autotune-no-cudagraphs": "selects kernels by timing candidates",
  "max-autotune": "selects kernels by timing candidates; on a GPU, replays them as CUDA graphs",
};

const flags: Readonly<Record<string, string>> = {
  dynamic: "for dynamic sizes",
  static: "for these sizes only",
  fullgraph: "graph breaks are errors",
};

/** Explains a configuration by its name; empty for an unknown name. */
export function configurationWords(name: string): string {
  const [head = "", ...added] = name.split("+");
  const backend = head.startsWith("backend:") ? `torch.compile with the backend ${head.slice(8)}` : "";
  const parts = [modes[head] ?? backend, ...added.map((one) => flags[one] ?? one)];
  return parts.filter((part) => part !== "").join(", ");
}

/** The kinds of time in one call. */
const kinds: Readonly<Record<string, string>> = {
  kernel: "the device runs compiled code",
  kernel_eager: "the device runs code that was not compiled, such as at a graph break",
  kernel_backend:
    "the device runs a kernel; for this backend, compiled and eager kernels cannot be distinguished",
  kernel_copy: "the device copies or fills memory",
  launch: "a kernel is launched, and the device has not started it",
  guards: "torch looks up compiled code for this call and checks its guards",
  wrapper: "the host allocates memory and launches kernels while the device is idle",
  eager: "the host prepares an operator that was not compiled",
  backend: "the host prepares operators of this backend or of code that was not compiled",
  sync: "the host waits for the device, as in .item()",
  copy: "the host waits for a copy between host and device",
  host: "your Python code, and all other work of the host",
  unknown: "the profile does not show it",
};

export function kindWords(kind: string): string {
  return kinds[kind] ?? "";
}

/** Where the kernels in a profile come from. */
const kernelKinds: Readonly<Record<string, string>> = {
  triton: "generated Triton",
  cpp: "generated C++",
  template: "from a template",
  user_triton: "your own Triton",
  extern: "library",
  fallback: "PyTorch (ATen)",
  kernel: "compiled",
  eager: "not compiled",
  copy: "copy or fill",
  inputs: "prepares inputs",
};

export function kernelKind(kind: string): string {
  return kernelKinds[kind] ?? kind.replaceAll("_", " ");
}

/** The readable name of a library kernel: a mangled C++ symbol is decoded up to its template arguments. */
export function kernelName(name: string): string {
  const encoded = /^_ZN?K?(?=\d)/.exec(name);
  if (encoded === null) {
    return name.replace(/^void /, "");
  }
  const parts: string[] = [];
  let rest = name.slice(encoded[0].length);
  for (let found = /^\d+/.exec(rest); found !== null; found = /^\d+/.exec(rest)) {
    const start = found[0].length;
    const end = start + Number(found[0]);
    parts.push(rest.slice(start, end));
    rest = rest.slice(end);
  }
  return `${parts.join("::")}${rest.startsWith("I") ? "<\u2026>" : ""}`;
}
