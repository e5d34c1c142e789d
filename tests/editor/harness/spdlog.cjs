/**
 * Replaces @vscode/spdlog, which would compile for 20 seconds, in the editor of the tests and of `make demo`: log files,
 * written by Node.
 *
 * Invariant: what was logged is in the file when the call returns. Files do not rotate: such an editor is a trial.
 */

const fs = require("node:fs");
const path = require("node:path");

/** In the order of spdlog's levels. */
const levels = ["trace", "debug", "info", "warning", "error", "critical", "off"];

class Logger {
  #descriptor;
  #level = levels.indexOf("info");
  #isPlain = false;

  constructor(_kind, _name, file) {
    this.#descriptor = fs.openSync(file, "a");
  }

  #write(level, message) {
    if (levels.indexOf(level) < this.#level || this.#descriptor === null) {
      return;
    }
    const time = new Date().toISOString().replace("T", " ").replace("Z", "");
    fs.writeSync(this.#descriptor, this.#isPlain ? message : `${time} [${level}] ${message}\n`);
  }

  trace(message) {
    this.#write("trace", message);
  }

  debug(message) {
    this.#write("debug", message);
  }

  info(message) {
    this.#write("info", message);
  }

  warn(message) {
    this.#write("warning", message);
  }

  error(message) {
    this.#write("error", message);
  }

  critical(message) {
    this.#write("critical", message);
  }

  getLevel() {
    return this.#level;
  }

  setLevel(level) {
    this.#level = level;
  }

  setPattern() {
    this.#isPlain = false;
  }

  /** Messages are written as they are, without a time and without an end of line. */
  clearFormatters() {
    this.#isPlain = true;
  }

  flush() {}

  drop() {
    if (this.#descriptor !== null) {
      fs.closeSync(this.#descriptor);
      this.#descriptor = null;
    }
  }
}

async function createLogger(kind, name, file) {
  await fs.promises.mkdir(path.dirname(file), { recursive: true });
  return new Logger(kind, name, file);
}

exports.version = 0;
exports.setLevel = () => {};
exports.setFlushOn = () => {};
exports.Logger = Logger;
exports.createRotatingLogger = (name, file) => createLogger("rotating", name, file);
exports.createAsyncRotatingLogger = (name, file) => createLogger("rotating_async", name, file);
