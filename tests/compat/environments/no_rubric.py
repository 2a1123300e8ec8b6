"""Without a rubric only the turns are counted."""

import verifiers as vf
from datasets import Dataset

ROWS = [{"question": "Anything?"}]
REPLIES = {"Anything?": ["No."]}


def load_environment() -> vf.Environment:
    return vf.SingleTurnEnv(
        dataset=Dataset.from_list(ROWS), message_type="chat", max_workers=8, note="kept"
    )
