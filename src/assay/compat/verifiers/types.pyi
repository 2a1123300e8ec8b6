from typing import TypeAlias

from assay.compat.verifiers.model_clients import ClientConfig as ClientConfig
from assay.compat.verifiers.model_clients import EndpointClientConfig as EndpointClientConfig
from assay.compat.verifiers.records import TASK_INPUT_FIELDS as TASK_INPUT_FIELDS
from assay.compat.verifiers.records import EvalConfig as EvalConfig
from assay.compat.verifiers.records import EvalRunConfig as EvalRunConfig
from assay.compat.verifiers.records import MessageType as MessageType
from assay.compat.verifiers.records import assert_json_serializable as assert_json_serializable
from assay.compat.verifiers.records import flatten_task_input as flatten_task_input
from assay.compat.verifiers.records import normalize_task_payload as normalize_task_payload
from assay.compat.verifiers.records import task_payload_from_info as task_payload_from_info
from assay.compat.verifiers.typed_messages import AssistantMessage as AssistantMessage
from assay.compat.verifiers.typed_messages import AttributeRecord
from assay.compat.verifiers.typed_messages import ImageUrlContentPart as ImageUrlContentPart
from assay.compat.verifiers.typed_messages import InputAudioContentPart as InputAudioContentPart
from assay.compat.verifiers.typed_messages import Response as Response
from assay.compat.verifiers.typed_messages import ResponseMessage as ResponseMessage
from assay.compat.verifiers.typed_messages import SystemMessage as SystemMessage
from assay.compat.verifiers.typed_messages import TextContentPart as TextContentPart
from assay.compat.verifiers.typed_messages import TextMessage as TextMessage
from assay.compat.verifiers.typed_messages import Tool as Tool
from assay.compat.verifiers.typed_messages import ToolCall as ToolCall
from assay.compat.verifiers.typed_messages import ToolMessage as ToolMessage
from assay.compat.verifiers.typed_messages import UserMessage as UserMessage
from assay.envs import Results
from assay.types import GroupRewardFunc as GroupRewardFunc
from assay.types import IndividualRewardFunc as IndividualRewardFunc
from assay.types import Info as Info
from assay.types import Messages as Messages
from assay.types import RewardFunc as RewardFunc
from assay.types import State as State

DatasetBuilder: TypeAlias = RewardFunc
GenerateOutputs: TypeAlias = Results
RolloutInput: TypeAlias = Info
BaseRolloutInput: TypeAlias = Info
Endpoint: TypeAlias = Info
ErrorInfo: TypeAlias = Info
FinishReason: TypeAlias = MessageType
GenerateMetadata: TypeAlias = Info
JsonPrimitive: TypeAlias = MessageType
TokenUsage: TypeAlias = Info
TrajectoryStepTokens: TypeAlias = Info
VersionInfo: TypeAlias = Info
SamplingArgs: TypeAlias = Info
RolloutOutput: TypeAlias = Info
RolloutScore: TypeAlias = Info
RolloutScores: TypeAlias = Info
RolloutTiming: TypeAlias = Info
TrajectoryStep: TypeAlias = Info
ChatMessage: TypeAlias = AttributeRecord
CustomBaseModel: TypeAlias = AttributeRecord
ContentPart: TypeAlias = AttributeRecord
ModelResponse: TypeAlias = Response
Usage: TypeAlias = AttributeRecord
Message: TypeAlias = AttributeRecord
GenericContentPart = ImageUrlSource = InputAudioSource = AttributeRecord
ResponseTokens = ThinkingBlock = TimeSpan = TimeSpans = AttributeRecord
ClientType = MessageContent = MessageType
Endpoints = Info
LogCallback = ProgressCallback = StartCallback = RewardFunc
