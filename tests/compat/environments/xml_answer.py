"""A parser of tags reads the answer and rewards the format."""

import verifiers as vf
from datasets import Dataset

ROWS = [{"question": "6 * 7?", "answer": "42"}, {"question": "6 * 8?", "answer": "48"}]
REPLIES = {
    "6 * 7?": ["<reasoning>six sevens</reasoning>\n<answer>42</answer>"],
    "6 * 8?": ["<reasoning>six eights</reasoning>\n<answer>49</answer>"],
}


def load_environment() -> vf.Environment:
    parser = vf.XMLParser(["reasoning", "answer"], answer_field="answer")

    def correct_answer(parser, completion, answer) -> float:
        return 1.0 if parser.parse_answer(completion) == answer else 0.0

    rubric = vf.Rubric(
        funcs=[correct_answer, parser.get_format_reward_func()], weights=[1.0, 0.2], parser=parser
    )
    prompt = f"Answer so:\n{parser.get_format_str()}"
    return vf.SingleTurnEnv(
        dataset=Dataset.from_list(ROWS), system_prompt=prompt, parser=parser, rubric=rubric
    )
