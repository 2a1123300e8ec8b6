"""HttpSend: payloads posted over the connections of the running loop."""

from collections.abc import Mapping

from assay.models.address import Address
from assay.models.client import Answer, Client
from assay.models.wire import Payload
from assay.redaction import redacted


class HttpSend:
    """Posts payloads to one address."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        self.url = url
        self._address = Address(url, headers)

    async def __call__(self, payload: Payload, seconds: float) -> Answer:
        client = await Client.here()
        answer = await client.ask(self._address, payload.written(), seconds)
        return answer._replace(text=redacted(answer.text)) if answer.text else answer
