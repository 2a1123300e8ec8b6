from assay.tools.arithmetic import calculator as calculator
from assay.tools.interpreter import Interpreter as Interpreter
from assay.tools.interpreter import python as python
from assay.tools.interpreter import python_async as python_async
from assay.tools.workspace import Workspace as Workspace

def failure(why: object) -> str: ...
def is_failure(reply: str) -> bool: ...
