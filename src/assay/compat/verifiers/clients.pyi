from assay.compat.verifiers.model_clients import Client as Client
from assay.compat.verifiers.model_clients import ClientConfig as ClientConfig
from assay.compat.verifiers.model_clients import SdkClient
from assay.compat.verifiers.model_clients import resolve_client as resolve_client

AnthropicMessagesClient = OpenAIChatCompletionsClient = OpenAICompletionsClient = (
    OpenAIResponsesClient
) = SdkClient
