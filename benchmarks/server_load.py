"""Ask a server, in a process of its own. Its only argument is the task as JSON; prints figures as JSON.

`count` requests of `rows` rollouts over `connections`, each as soon as the one before is answered; or, with
`per_second`, one every so often for `seconds`, whether those before are answered or not.
"""

import asyncio
import json
import resource
import sys
import time
from collections import Counter
from typing import Any

import aiohttp
from server_rubric import expected, rollout


async def main(task: dict[str, Any]) -> dict[str, Any]:
    connector = aiohttp.TCPConnector(limit=task.get("connections", 0))
    async with aiohttp.ClientSession(task["url"], connector=connector) as session:
        if "per_second" in task:
            return await steadily(session, task)
        return await back_to_back(session, task)


async def back_to_back(session: aiohttp.ClientSession, task: dict[str, Any]) -> dict[str, Any]:
    numbers = iter(range(task["count"]))
    wrong = 0

    async def ask() -> None:
        nonlocal wrong
        for number in numbers:
            first = number * task["rows"]
            wanted = range(first, first + task["rows"])
            body = {"rollouts": [rollout(one) for one in wanted]}
            async with session.post("/v1/score", json=body) as response:
                items = (await response.json())["items"]
            found = [item["reward"] for item in items]
            wrong += found != [expected(one) for one in wanted]

    await asyncio.gather(*(ask() for _ in range(task["connections"])))
    return {"wrong": wrong}


async def steadily(session: aiohttp.ClientSession, task: dict[str, Any]) -> dict[str, Any]:
    seconds: dict[int, list[float]] = {200: [], 429: []}
    others: Counter[str] = Counter()

    async def ask(number: int) -> None:
        started = time.perf_counter()
        try:
            body = {"rollouts": [rollout(number)]}
            async with session.post("/v1/score", json=body) as response:
                await response.read()
                status = response.status
        except aiohttp.ClientError as error:
            others[type(error).__name__] += 1
            return
        if status in seconds:
            seconds[status].append(time.perf_counter() - started)
        else:
            others[str(status)] += 1

    total = int(task["per_second"] * task["seconds"])
    begun = time.perf_counter()
    asked: list[asyncio.Task[None]] = []
    for number in range(total):
        wait = begun + number / task["per_second"] - time.perf_counter()
        if wait > 0:
            await asyncio.sleep(wait)
        asked.append(asyncio.create_task(ask(number)))
    await asyncio.gather(*asked)
    return {
        "asked": total,
        "served": len(seconds[200]),
        "refused": len(seconds[429]),
        "others": dict(others),
        "p50": _share(seconds[200], 0.50),
        "p99": _share(seconds[200], 0.99),
        "refused_p99": _share(seconds[429], 0.99),
    }


def _share(values: list[float], share: float) -> float | None:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None


if __name__ == "__main__":
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    print(json.dumps(asyncio.run(main(json.loads(sys.argv[1])))))
