"""What the environments and rubrics of verifiers 0.1.14 have beside what evaluating needs works here too."""

import types

import pytest

import assay.compat.verifiers as vf


class Boxes:
    """A service of sandboxes that refuses the first of every kind of call."""

    def __init__(self):
        self.log, self.refused = [], set()

    def _told(self, *call):
        self.log.append(call)
        if call[0] not in self.refused:
            self.refused.add(call[0])
            raise OSError("busy")

    async def create(self, request):
        self._told("create", request.docker_image, request.cpu_cores, request.labels)
        return types.SimpleNamespace(id=f"box-{len(self.log)}")

    async def wait_for_creation(self, sandbox_id):
        raise OSError("it did not come up")

    async def delete(self, sandbox_id):
        self._told("delete", sandbox_id)

    def teardown(self):
        self.log.append(("teardown",))


class ManyBoxes(Boxes):
    async def bulk_delete(self, sandbox_ids):
        self._told("bulk_delete", [*sandbox_ids])


@pytest.mark.parametrize("service", [Boxes, ManyBoxes])
async def test_sandboxes_that_are_left_are_deleted_when_the_environment_is_closed(service):
    """Before the client is torn down, and again after a refusal; a subclass may override each step and call it."""

    class Env(vf.SandboxEnv):
        async def bulk_delete_sandboxes(self, global_ids):
            deleted.append(sorted(global_ids))
            await super().bulk_delete_sandboxes(global_ids)

        @vf.teardown
        async def teardown_sandbox_client(self):
            deleted.append("client")
            await super().teardown_sandbox_client()

    deleted = []
    env = Env(dataset=[{"question": "?"}], base_delay=0.0, cpu_cores=4)
    env.sandbox_client = client = service()
    state = vf.State()
    await env.setup_state(state)
    assert client.log == [("create", "python:3.11-slim", 4, [])] * 2
    with pytest.raises(vf.SandboxError, match="did not come up") as caught:
        await env.bash("ls", state["sandbox_id"], state["sandbox_state"])
    assert type(caught.value).__name__ == "SandboxNotReadyError"
    env.active_sandboxes |= {"lost", "gone"}
    await env.destroy_sandbox(state)
    await env.aclose()
    assert deleted == [["gone", "lost"], "client"]
    many = [("bulk_delete", ["gone", "lost"])] * 2
    left = many if service is ManyBoxes else [("delete", "gone"), ("delete", "lost")]
    assert client.log[2:] == [*[("delete", "box-2")] * 2, *left, ("teardown",)]
    assert not env.active_sandboxes


async def test_a_sandbox_that_cannot_be_deleted_is_kept_in_mind():
    """What a service refuses for good is a line in the log, and the sandbox stays in `active_sandboxes`."""
    env = vf.SandboxEnv(dataset=[{"question": "?"}], max_retries=1)
    env.sandbox_client, env.active_sandboxes = ManyBoxes(), {"a", "b"}
    await env.destroy_sandbox(vf.State(sandbox_id="a"))
    await env.bulk_delete_sandboxes(["a", "b"])
    assert env.active_sandboxes == {"a", "b"}
    await env.teardown_sandboxes()
    assert not env.active_sandboxes
