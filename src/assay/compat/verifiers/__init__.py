"""The names of `verifiers` 0.1 on our engine: `import assay.compat.verifiers as vf` runs its programs.

After `install()` their own `import verifiers as vf` finds this package.
"""

from assay.compat.mirror import mirror
from assay.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
__version__ = "0.1.14"  # the version whose behaviour this is

_RUBRICS = f"{__name__}.numeric_rubrics"
_PARSERS = f"{__name__}.lenient_parsers"
_ENVS = f"{__name__}.environments"
_TOOL_ENVS = f"{__name__}.tool_environments"
_RECORDS = f"{__name__}.records"
_MESSAGES = f"{__name__}.typed_messages"
_DATA = f"{__name__}.example_data"

mirror(
    __name__,
    {
        "decorators": {"assay.envs": "cleanup stop teardown"},
        "envs": {_ENVS: "EnvGroup Environment MultiTurnEnv SingleTurnEnv", _TOOL_ENVS: "StatefulToolEnv ToolEnv"},
        "envs.env_group": {_ENVS: "EnvGroup EnvGroupRubric"},
        "envs.environment": {_ENVS: "Environment"},
        "envs.experimental": {},
        "envs.multiturn_env": {_ENVS: "MultiTurnEnv"},
        "envs.singleturn_env": {_ENVS: "SingleTurnEnv"},
        "envs.stateful_tool_env": {_TOOL_ENVS: "StatefulToolEnv filter_signature"},
        "envs.tool_env": {_TOOL_ENVS: "ToolEnv"},
        "errors": {
            _RECORDS: "EmptyModelResponseError Error InfraError InvalidModelResponseError ModelError "
            "OverlongPromptError SandboxError ToolCallError ToolError ToolParseError"
        },
        "parsers": {_PARSERS: "MaybeThinkParser Parser ThinkParser XMLParser"},
        "parsers.maybe_think_parser": {_PARSERS: "MaybeThinkParser"},
        "parsers.parser": {_PARSERS: "Parser"},
        "parsers.think_parser": {_PARSERS: "ThinkParser"},
        "parsers.xml_parser": {_PARSERS: "XMLParser"},
        "rubrics": {_RUBRICS: "JudgeRubric MathRubric Rubric RubricGroup SmolaToolRubric ToolRubric"},
        "rubrics.judge_rubric": {_RUBRICS: "JudgeRubric", "assay.presets.judge_rubric": "DEFAULT_JUDGE_PROMPT"},
        "rubrics.math_rubric": {_RUBRICS: "MathRubric"},
        "rubrics.rubric": {_RUBRICS: "Rubric"},
        "rubrics.rubric_group": {_RUBRICS: "RubricGroup"},
        "rubrics.smola_tool_rubric": {_RUBRICS: "SmolaToolRubric"},
        "rubrics.tool_rubric": {_RUBRICS: "ToolRubric"},
        "tools": {"assay.tools": "calculator python"},
        "types": {
            _RECORDS: "DatasetBuilder GenerateOutputs RolloutInput RolloutOutput RolloutScore RolloutScores RolloutTiming "
            "SamplingArgs TrajectoryStep",
            _MESSAGES: "AssistantMessage Response SystemMessage Tool ToolCall ToolMessage UserMessage "
            "ChatMessage=AttributeRecord CustomBaseModel=AttributeRecord",
            "assay.types": "GroupRewardFunc IndividualRewardFunc Info Message Messages RewardFunc State",
        },
        "utils": {},
        "utils.async_utils": {_DATA: "maybe_await maybe_call_with_named_args"},
        "utils.config_utils": {_DATA: "ensure_keys", _RECORDS: "MissingKeyError"},
        "utils.data_utils": {
            _DATA: "BOXED_SYSTEM_PROMPT THINK_BOXED_SYSTEM_PROMPT load_example_dataset",
            _PARSERS: "extract_boxed_answer extract_hash_answer strip_non_numeric",
        },
        "utils.env_utils": {f"{__name__}.installation": "load_environment"},
        "utils.logging_utils": {_DATA: "setup_logging"},
        "utils.message_utils": {_DATA: "concat_messages", _MESSAGES: "normalize_messages=typed"},
        "utils.response_utils": {_DATA: "parse_response_message"},
        "utils.tool_utils": {_TOOL_ENVS: "convert_func_to_tool_def is_valid_tool_content_parts"},
    },
)
