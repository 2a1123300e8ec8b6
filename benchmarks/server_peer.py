"""The same rubric behind FastAPI and uvicorn, as one would write it: `server_peer.py RUBRIC PORT HTTP`."""

import sys
from typing import Any

import server_rubric
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from assay import Rollout

Chat = list[dict[str, Any]]


class RolloutBody(BaseModel):
    prompt: str | Chat = ""
    completion: str | Chat
    answer: Any = ""
    task: str = "default"
    info: dict[str, Any] = {}


class ScoreBody(BaseModel):
    rollouts: list[RolloutBody]


class Item(BaseModel):
    reward: float | None
    score: float | None
    errors: dict[str, str] | None = None


class ScoreReply(BaseModel):
    rubric: str
    items: list[Item]


app = FastAPI()
rubric = getattr(server_rubric, sys.argv[1])
content_hash = rubric.content_hash


@app.post("/v1/score")
async def score(body: ScoreBody) -> ScoreReply:
    rollouts = [
        Rollout(
            prompt=row.prompt,
            completion=row.completion,
            answer=row.answer,
            task=row.task,
            info=row.info,
        )
        for row in body.rollouts
    ]
    reports = await rubric.score(rollouts)
    items = [
        Item(reward=report.raw_score, score=report.score)
        if report.scored
        else Item(reward=None, score=None, errors=report.errors)
        for report in reports
    ]
    return ScoreReply(rubric=content_hash, items=items)


if __name__ == "__main__":
    uvicorn.run(
        app,
        port=int(sys.argv[2]),
        http=sys.argv[3],  # type: ignore[arg-type]
        loop="asyncio",
        access_log=False,
        log_level="error",
    )
