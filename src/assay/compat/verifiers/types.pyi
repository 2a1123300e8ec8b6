from typing import TypeAlias

from assay.compat.verifiers.records import DatasetBuilder as DatasetBuilder
from assay.compat.verifiers.records import GenerateOutputs as GenerateOutputs
from assay.compat.verifiers.records import MessageType as MessageType
from assay.compat.verifiers.records import RolloutInput as RolloutInput
from assay.compat.verifiers.records import RolloutOutput as RolloutOutput
from assay.compat.verifiers.records import RolloutScore as RolloutScore
from assay.compat.verifiers.records import RolloutScores as RolloutScores
from assay.compat.verifiers.records import RolloutTiming as RolloutTiming
from assay.compat.verifiers.records import SamplingArgs as SamplingArgs
from assay.compat.verifiers.records import TrajectoryStep as TrajectoryStep
from assay.compat.verifiers.typed_messages import AssistantMessage as AssistantMessage
from assay.compat.verifiers.typed_messages import AttributeRecord
from assay.compat.verifiers.typed_messages import Response as Response
from assay.compat.verifiers.typed_messages import SystemMessage as SystemMessage
from assay.compat.verifiers.typed_messages import Tool as Tool
from assay.compat.verifiers.typed_messages import ToolCall as ToolCall
from assay.compat.verifiers.typed_messages import ToolMessage as ToolMessage
from assay.compat.verifiers.typed_messages import UserMessage as UserMessage
from assay.types import GroupRewardFunc as GroupRewardFunc
from assay.types import IndividualRewardFunc as IndividualRewardFunc
from assay.types import Info as Info
from assay.types import Messages as Messages
from assay.types import RewardFunc as RewardFunc
from assay.types import State as State

BaseRolloutInput: TypeAlias = RolloutInput
Endpoint: TypeAlias = RolloutInput
ErrorInfo: TypeAlias = RolloutInput
FinishReason: TypeAlias = MessageType
GenerateMetadata: TypeAlias = RolloutInput
JsonPrimitive: TypeAlias = MessageType
TokenUsage: TypeAlias = RolloutInput
TrajectoryStepTokens: TypeAlias = RolloutInput
VersionInfo: TypeAlias = RolloutInput
ChatMessage: TypeAlias = AttributeRecord
CustomBaseModel: TypeAlias = AttributeRecord
ContentPart: TypeAlias = AttributeRecord
ModelResponse: TypeAlias = Response
ResponseMessage: TypeAlias = AssistantMessage
TextContentPart: TypeAlias = AttributeRecord
TextMessage: TypeAlias = UserMessage
Usage: TypeAlias = AttributeRecord
Message: TypeAlias = AttributeRecord
