"""The state that a rollout begins with."""

import time
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from assay.envs.examples import copied
from assay.envs.speaker import Speaker
from assay.types import State


def begun(example: Mapping[str, Any], speaker: Speaker) -> State:
    """A state of its own for one rollout: nothing that happens to it reaches the example."""
    return State(
        input=copied(dict(example)),
        client=speaker,
        model=speaker.name,
        sampling_args=speaker.sampling_args,
        completion=None,
        trajectory=[],
        trajectory_id=uuid4().hex,
        responses=[],
        turn=0,
        is_completed=False,
        is_truncated=False,
        stop_condition=None,
        reward=None,
        metrics=None,
        error=None,
        final_env_response=None,
        timing={
            "start_time": time.time(),
            "generation_ms": 0.0,
            "scoring_ms": 0.0,
            "total_ms": 0.0,
        },
    )
