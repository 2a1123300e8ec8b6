"""HttpSend: payloads posted over the pooled client of the running loop."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from assay.models.client import Answer, Client, http_package, proxy_for
from assay.models.wire import Payload

_HEADERS = {"Accept": "application/json", "User-Agent": "assay"}


class HttpSend:
    """Posts payloads to one address."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        http_package()
        self.url = url
        # Made once: they would be made again for every call.
        self._address: Any = import_module("yarl").URL(url)
        self._headers: Any = import_module("multidict").CIMultiDict({**_HEADERS, **headers})
        self._proxy = proxy_for(url)

    async def __call__(self, payload: Payload) -> Answer:
        client = await Client.here()
        return await client.post(self._address, payload.written(), self._headers, self._proxy)
