"""Directives: the inputs of a target in Python's own call syntax (docs/inputs.md). Standard library only.

`parse_directive` reads the text, an `Evaluator` makes objects of it, `describe_call` turns a call back into text.
Invariant: whatever the text is, the outcome is a value or a `DirectiveError` with a range inside the text.
"""

from fuselight.shared.inputs.describe import describe_call as describe_call
from fuselight.shared.inputs.describe import describe_value as describe_value
from fuselight.shared.inputs.dtypes import DTYPES as DTYPES
from fuselight.shared.inputs.evaluate import Evaluator as Evaluator
from fuselight.shared.inputs.evaluate import UserCallError as UserCallError
from fuselight.shared.inputs.grammar import OPTIONS as OPTIONS
from fuselight.shared.inputs.grammar import Directive as Directive
from fuselight.shared.inputs.grammar import DirectiveError as DirectiveError
from fuselight.shared.inputs.grammar import Options as Options
from fuselight.shared.inputs.grammar import TensorSpec as TensorSpec
from fuselight.shared.inputs.grammar import parse_directive as parse_directive
from fuselight.shared.inputs.grammar import split_options as split_options
