"""The file that `--reward.remote_url` names; the test says which function it holds."""

from conformance_reward import reward_func  # noqa: F401
