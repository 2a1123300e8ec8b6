from assay.compat.verifiers.environments import EnvGroup as EnvGroup
from assay.compat.verifiers.environments import Environment as Environment
from assay.compat.verifiers.environments import MultiTurnEnv as MultiTurnEnv
from assay.compat.verifiers.environments import SingleTurnEnv as SingleTurnEnv
from assay.compat.verifiers.tool_environments import PythonEnv as PythonEnv
from assay.compat.verifiers.tool_environments import SandboxEnv as SandboxEnv
from assay.compat.verifiers.tool_environments import StatefulToolEnv as StatefulToolEnv
from assay.compat.verifiers.tool_environments import ToolEnv as ToolEnv
