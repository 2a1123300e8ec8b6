from assay.compat.verifiers.records import Client as Client
from assay.compat.verifiers.records import ClientConfig as ClientConfig
from assay.compat.verifiers.records import SdkClient
from assay.compat.verifiers.records import resolve_client as resolve_client

AnthropicMessagesClient = OpenAIChatCompletionsClient = OpenAICompletionsClient = (
    OpenAIResponsesClient
) = SdkClient
