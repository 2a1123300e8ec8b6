"""The user is another model, asked by the client of the rollout with settings of its own."""

import verifiers as vf
from datasets import Dataset

ROWS = [{"question": "Interview me.", "answer": "bye"}]


def replies(messages):
    if messages[0]["role"] == "system":
        return f"answer {sum(m['role'] == 'assistant' for m in messages)}"
    return "bye" if len(messages) > 3 else f"question {len(messages)}"


class Interview(vf.MultiTurnEnv):
    async def env_response(self, messages, state, **kwargs):
        turned = [{"role": "system", "content": "You are interviewed."}]
        for message in messages:
            role = "user" if message.role == "assistant" else "assistant"
            turned.append({"role": role, "content": str(message.content)})
        response = await self.get_model_response(
            state,
            vf.utils.message_utils.normalize_messages(turned, field_name="x"),
            sampling_args={"max_tokens": 9},
        )
        return [vf.UserMessage(content=response.message.content)]

    @vf.stop
    async def said_goodbye(self, state) -> bool:
        return (
            bool(state["trajectory"])
            and state["trajectory"][-1]["completion"][-1].content == state["answer"]
        )


def load_environment() -> vf.Environment:
    import verifiers.utils.message_utils  # noqa: F401

    rubric = vf.Rubric(funcs=[lambda completion: float(len(completion))])
    return Interview(dataset=Dataset.from_list(ROWS), rubric=rubric, max_turns=4)
