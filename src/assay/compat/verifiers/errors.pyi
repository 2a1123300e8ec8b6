from assay.compat.verifiers.records import EmptyModelResponseError as EmptyModelResponseError
from assay.compat.verifiers.records import Error as Error
from assay.compat.verifiers.records import InfraError as InfraError
from assay.compat.verifiers.records import InvalidModelResponseError as InvalidModelResponseError
from assay.compat.verifiers.records import ModelError as ModelError
from assay.compat.verifiers.records import OverlongPromptError as OverlongPromptError
from assay.compat.verifiers.records import SandboxError as SandboxError
from assay.compat.verifiers.records import ToolCallError as ToolCallError
from assay.compat.verifiers.records import ToolError as ToolError
from assay.compat.verifiers.records import ToolParseError as ToolParseError

BrowserSandboxError = SandboxError
TunnelError = InfraError
