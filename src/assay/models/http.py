"""HttpSend: bodies posted over the pooled client of the running loop."""

from collections.abc import Mapping
from typing import Any

from assay.models.client import Answer, Client, dumps, http_package, proxy_for


class HttpSend:
    """Posts a body to one address."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        http_package()
        self.url = url
        self._headers = dict(headers)
        self._proxy = proxy_for(url)

    async def __call__(self, body: Mapping[str, Any]) -> Answer:
        client = await Client.here()
        return await client.post(self.url, dumps(body), self._headers, self._proxy)
