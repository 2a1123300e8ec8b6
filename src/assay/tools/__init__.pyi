from assay.tools.arithmetic import calculator as calculator
from assay.tools.failures import failure as failure
from assay.tools.failures import is_failure as is_failure
from assay.tools.interpreter import Interpreter as Interpreter
from assay.tools.interpreter import python as python
from assay.tools.interpreter import python_async as python_async
