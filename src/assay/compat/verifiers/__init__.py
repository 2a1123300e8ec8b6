"""The names of `verifiers` on our engine: `import assay.compat.verifiers as vf` runs its programs."""

from assay.compat.mirror import mirror
from assay.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)

_RUBRICS = f"{__name__}.numeric_rubrics"
_ENVS = f"{__name__}.environments"
_RECORDS = f"{__name__}.records"
_DATA = f"{__name__}.example_data"

mirror(
    __name__,
    {
        "decorators": {"assay.envs": "cleanup stop teardown"},
        "envs": {_ENVS: "Environment MultiTurnEnv SingleTurnEnv ToolEnv"},
        "envs.environment": {_ENVS: "Environment"},
        "envs.multiturn_env": {_ENVS: "MultiTurnEnv"},
        "envs.singleturn_env": {_ENVS: "SingleTurnEnv"},
        "envs.tool_env": {_ENVS: "ToolEnv"},
        "errors": {
            _RECORDS: "EmptyModelResponseError Error InfraError InvalidModelResponseError ModelError "
            "OverlongPromptError ToolCallError ToolError ToolParseError"
        },
        "parsers": {"assay": "MaybeThinkParser Parser ThinkParser XMLParser"},
        "parsers.maybe_think_parser": {"assay": "MaybeThinkParser"},
        "parsers.parser": {"assay": "Parser"},
        "parsers.think_parser": {"assay": "ThinkParser"},
        "parsers.xml_parser": {"assay": "XMLParser"},
        "rubrics": {_RUBRICS: "JudgeRubric MathRubric Rubric RubricGroup SmolaToolRubric ToolRubric"},
        "rubrics.judge_rubric": {_RUBRICS: "JudgeRubric", "assay.presets.judge_rubric": "DEFAULT_JUDGE_PROMPT"},
        "rubrics.math_rubric": {_RUBRICS: "MathRubric"},
        "rubrics.rubric": {_RUBRICS: "Rubric"},
        "rubrics.rubric_group": {_RUBRICS: "RubricGroup"},
        "rubrics.smola_tool_rubric": {_RUBRICS: "SmolaToolRubric"},
        "rubrics.tool_rubric": {_RUBRICS: "ToolRubric"},
        "tools": {"assay.tools": "calculator python"},
        "types": {
            _RECORDS: "GenerateOutputs RolloutInput RolloutOutput RolloutScore RolloutScores RolloutTiming SamplingArgs",
            "assay.types": "GroupRewardFunc IndividualRewardFunc Info Message Messages RewardFunc State",
        },
        "utils": {},
        "utils.async_utils": {_DATA: "maybe_await"},
        "utils.data_utils": {
            _DATA: "BOXED_SYSTEM_PROMPT THINK_BOXED_SYSTEM_PROMPT load_example_dataset",
            "assay.parsers": "extract_boxed_answer extract_hash_answer strip_non_numeric",
        },
        "utils.logging_utils": {_DATA: "setup_logging"},
    },
)
