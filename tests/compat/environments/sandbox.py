"""A sandbox of the rollout's own, by a client that keeps files in memory in place of a service."""

from types import SimpleNamespace

import verifiers as vf
from datasets import Dataset

ROWS = [{"question": "Write and read.", "answer": "hello"}, {"question": "Fail.", "answer": "x"}]
REPLIES = {
    "Write and read.": [
        ("bash", {"command": "write hello"}),
        ("bash", {"command": "read"}),
        "hello",
    ],
    "Fail.": [
        ("bash", {"command": "complain"}),
        ("bash", {"command": "nothing"}),
        ("bash", {"cmd": "?"}),
        "x",
    ],
}
OPTIONS = {"state_columns": ["left"]}


class Memory:
    def __init__(self):
        self.files = {}

    async def create(self, request):
        sandbox = SimpleNamespace(id=f"box-{len(self.files)}-{request.name}")
        self.files[sandbox.id] = ""
        return sandbox

    async def wait_for_creation(self, sandbox_id):
        assert sandbox_id in self.files

    async def execute_command(self, sandbox_id, command, **options):
        verb, _, text = command.partition(" ")
        self.files[sandbox_id] = text if verb == "write" else self.files[sandbox_id]
        stdout = {"read": self.files[sandbox_id]}.get(verb, "")
        return SimpleNamespace(
            stdout=stdout, stderr="no!" if verb == "complain" else "", exit_code=0
        )

    async def delete(self, sandbox_id):
        del self.files[sandbox_id]

    def teardown(self):
        pass


class Files(vf.SandboxEnv):
    async def post_rollout(self, state):
        result = await self.sandbox_client.execute_command(state["sandbox_id"], "read")
        state["left"] = result.stdout


def left(state, answer) -> float:
    return float(state["left"] == answer)


def load_environment() -> vf.Environment:
    environment = Files(
        dataset=Dataset.from_list(ROWS),
        sandbox_name="files",
        start_command=None,
        rubric=vf.Rubric(funcs=[left]),
    )
    environment.sandbox_client = Memory()
    return environment
