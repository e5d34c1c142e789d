/**
 * What the page's terms mean, for those who train models and have never read a compiler's log.
 *
 * Invariant: plain words that hold on every device; numbers are never said here.
 */

const modes: Readonly<Record<string, string>> = {
  eager: "nothing compiled",
  written: "as your source compiles it",
  default: "torch.compile as it is",
  dynamic: "compiled for changing sizes",
  "reduce-overhead": "on a GPU, launches are replayed as CUDA graphs",
  "max-autotune-no-cudagraphs": "kernels chosen by timing them",
  "max-autotune": "kernels chosen by timing them; on a GPU, CUDA graphs as well",
};

const flags: Readonly<Record<string, string>> = {
  dynamic: "for changing sizes",
  static: "for these sizes alone",
  fullgraph: "no graph break allowed",
};

/** What a configuration does, of its name; empty where the name alone says it. */
export function configurationWords(name: string): string {
  const [head = "", ...added] = name.split("+");
  const backend = head.startsWith("backend:") ? `torch.compile with the backend ${head.slice(8)}` : "";
  const parts = [modes[head] ?? backend, ...added.map((one) => flags[one] ?? one)];
  return parts.filter((part) => part !== "").join(", ");
}

/** Of the kinds of time that a call is made of. */
const kinds: Readonly<Record<string, string>> = {
  kernel: "the device computes what torch.compile has made",
  kernel_eager: "the device computes what was not compiled, as at a graph break",
  kernel_backend: "the device computes: for this backend, compiled and eager kernels look the same",
  kernel_copy: "the device copies or fills memory",
  launch: "a kernel is handed over, and the device has not begun it",
  guards: "torch looks for compiled code that fits this call, and checks that it is valid",
  wrapper: "the processor gets memory and launches kernels; the device has nothing to do meanwhile",
  eager: "the processor prepares an operator that was not compiled",
  backend: "the processor prepares operators, of this backend or of what was not compiled",
  sync: "the program waits until the device is done, as .item() does",
  copy: "the program waits for data on its way between processor and device",
  host: "your Python code, and whatever else the processor does",
  unknown: "the profile does not tell",
};

export function kindWords(kind: string): string {
  return kinds[kind] ?? "";
}

/** Of the kernels in a profile: who made them. */
const kernelKinds: Readonly<Record<string, string>> = {
  triton: "generated Triton",
  cpp: "generated C++",
  template: "from a template",
  user_triton: "your own Triton",
  extern: "a library's",
  fallback: "PyTorch's own",
  kernel: "compiled",
  eager: "not compiled",
  copy: "copy or fill",
  inputs: "makes inputs",
};

export function kernelKind(kind: string): string {
  return kernelKinds[kind] ?? kind.replaceAll("_", " ");
}

/** A library's kernel as people call it: C++ that was encoded as a symbol is read as far as its name goes. */
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
