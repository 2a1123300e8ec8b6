from assay.compat.verifiers.records import ClientConfig as ClientConfig
from assay.compat.verifiers.records import resolve_client as resolve_client
from assay.envs.model_under_test import ModelUnderTest

Client = ModelUnderTest
AnthropicMessagesClient = OpenAIChatCompletionsClient = OpenAICompletionsClient = OpenAIResponsesClient = resolve_client
