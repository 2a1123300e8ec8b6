"""A game of textarena as it comes: the parser of the class, whole observations, examples to evaluate on."""

import verifiers as vf

SAID = [
    "<think>A guess.</think>\n<guess>[plum]</guess>",
    "<guess>[lime]</guess>",
    "<think>Hm.</think>",
    "<guess>plum</guess>",
    "<guess>[no]</guess>",
]


def replies(messages):
    return SAID[sum(message["role"] == "assistant" for message in messages)]


def load_environment() -> vf.Environment:
    env = vf.TextArenaEnv(game="Guess-v0", num_train_examples=2, num_eval_examples=4, seed=5)
    assert [len(rows) for rows in (env.get_dataset(), env.get_eval_dataset())] == [2, 4]
    env.add_rubric(vf.Rubric(funcs=[env.parser.get_format_reward_func()], parser=env.parser))
    return env
