from assay.compat.verifiers.clients import *
from assay.compat.verifiers.envs import *
from assay.compat.verifiers.errors import *
from assay.compat.verifiers.example_data import ensure_keys as ensure_keys
from assay.compat.verifiers.example_data import load_example_dataset as load_example_dataset
from assay.compat.verifiers.example_data import log_level as log_level
from assay.compat.verifiers.example_data import (
    print_prompt_completions_sample as print_prompt_completions_sample,
)
from assay.compat.verifiers.example_data import quiet_verifiers as quiet_verifiers
from assay.compat.verifiers.example_data import setup_logging as setup_logging
from assay.compat.verifiers.installation import install as install
from assay.compat.verifiers.lenient_parsers import extract_boxed_answer as extract_boxed_answer
from assay.compat.verifiers.lenient_parsers import extract_hash_answer as extract_hash_answer
from assay.compat.verifiers.parsers import *
from assay.compat.verifiers.records import MissingKeyError as MissingKeyError
from assay.compat.verifiers.rubrics import *
from assay.compat.verifiers.types import *
from assay.envs import cleanup as cleanup
from assay.envs import load_environment as load_environment
from assay.envs import stop as stop
from assay.envs import teardown as teardown
