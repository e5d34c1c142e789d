"""Built-in suites of models: each row is the text of a small file that makes one model and calls it.

Invariant: data and text only. Nothing is imported from the libraries that ship the models, so that the server can list
a suite without torch; a row's file runs in the user's interpreter, as any file of the user. Weights are random.
"""

from fuselight.shared.suites.rows import SIZES, SUITES, SuiteRow, UnknownSuiteError, suite_rows, write_rows

__all__ = ["SIZES", "SUITES", "SuiteRow", "UnknownSuiteError", "suite_rows", "write_rows"]
