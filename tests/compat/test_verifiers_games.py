"""TextArenaEnv and ReasoningGymEnv: games and questions of other packages, and what these do wrong.

What they give is compared with verifiers in `test_verifiers_environments.py`. Here too the packages are those of
`environments/packages`, but for the last two tests, which play with the real ones where they are installed.
"""

import json
import random
import sys
from pathlib import Path

import pytest

from assay.compat import verifiers as vf
from assay.testing import ModelServer

PACKAGES = Path(__file__).parent / "environments" / "packages"


@pytest.fixture(autouse=True)
def afresh(monkeypatch):
    """No package of games is imported before or after."""
    roots = ("textarena", "reasoning_gym")
    for name in [name for name in sys.modules if name.partition(".")[0] in roots]:
        monkeypatch.delitem(sys.modules, name)
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] in roots]:
        del sys.modules[name]


@pytest.fixture
def packages(monkeypatch):
    monkeypatch.syspath_prepend(PACKAGES)


async def evaluated(env, answer, **options):
    with ModelServer(answer) as server:
        return await env.evaluate(model=server.model, **options)


def in_order(*replies):
    """An answer for each example, whatever turn it is in: examples are told apart by the number they ask with."""
    return lambda messages: replies[int(messages[0]["content"].split()[0])]


class Numbered(vf.TextArenaEnv):
    def ta_to_hf(self):
        rows, _ = super().ta_to_hf()
        return [
            {**row, "question": f"{number} {row['question']}"} for number, row in enumerate(rows)
        ], None


async def test_a_game_that_raises_or_hangs_is_an_error_of_its_rollout(packages):
    """The other rollouts are played to their end."""
    env = Numbered("Frail-v0", 3, max_turns=3, seconds_per_call=2.0)
    replies = [f"<guess>[{word}]</guess>" for word in ("break", "wait", "kiwi")]
    results = await evaluated(env, in_order(*replies))
    first, second, third = results.outputs
    assert (first["error"]["error"], first["stop_condition"]) == ("KeyError", "has_error")
    assert "the board is lost" in first["error"]["error_chain_repr"]
    assert (
        "step took more than 2 s: allow more time with seconds_per_call="
        in second["error"]["error_chain_repr"]
    )
    assert (third["error"], third["metrics"]["num_turns"]) == (None, 3.0)


async def test_an_answer_that_cannot_be_scored_is_unscored(packages):
    """Also when the data set never comes to an end with it; other answers are scored."""
    env = vf.ReasoningGymEnv("sums", 0, 3, system_prompt=None, seconds_per_call=2.0)
    asked = [row["prompt"][0]["content"] for row in env.eval_dataset]
    said = dict(zip(asked, ["?", "...", str(sum(map(int, asked[2].split("+"))))], strict=True))
    results = await evaluated(
        env, lambda messages: f"<answer>{said[messages[-1]['content']]}</answer>"
    )
    first, second, third = results.outputs
    assert first["errors"] == {"check_answer_reward_func": "ValueError: no number"}
    assert second["errors"] == {
        "check_answer_reward_func": "TimeoutError: score_answer took more than 2 s: allow more time with seconds_per_call="
    }
    assert (third["reward"], third["errors"]) == (1.0, {})


def test_what_cannot_be_played_is_refused_when_the_environment_is_made(packages):
    """With what to do instead."""
    with pytest.raises(
        ValueError, match="'Wordless-v0' has no word_list: write a subclass whose ta_to_hf and"
    ):
        vf.TextArenaEnv("Wordless-v0")
    with pytest.raises(
        ValueError, match="gym has 3: give names, or dicts with name, weight and config"
    ):
        vf.ReasoningGymEnv(["sums", 3])


def test_the_state_of_random_is_the_callers(packages):
    """Words are drawn by the seed of the environment, and the caller's own draws stay as they were."""
    random.seed(1)
    expected = random.Random(1).random()
    words = [
        [row["answer"] for row in vf.TextArenaEnv("Guess-v0", 9, seed=n).dataset] for n in (4, 4, 5)
    ]
    assert random.random() == expected
    assert words[0] == words[1] != words[2]


@pytest.mark.parametrize(
    ("made", "package", "module"),
    [
        (lambda: vf.envs.textarena_env.TextArenaEnv(), "textarena", "textarena"),
        (
            lambda: vf.envs.reasoninggym_env.ReasoningGymEnv("sums"),
            "reasoning-gym",
            "reasoning_gym",
        ),
    ],
)
def test_a_package_is_named_when_it_is_missing(monkeypatch, made, package, module):
    """When the environment is made, by the path that older environments import the class from too."""
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(
        ImportError,
        match=f"needs the package '{package}', .* not installed: pip install {package}$",
    ):
        made()


async def test_wordle_of_textarena_is_played(monkeypatch, tmp_path):
    """With lists of two words in place of those that it downloads."""
    nltk = pytest.importorskip("nltk")
    pytest.importorskip("textarena")
    for path, text in {
        "corpora/words/en": "crane\nslate\n",
        "corpora/words/en-basic": "crane\n",
        "taggers/averaged_perceptron_tagger_eng/averaged_perceptron_tagger_eng.weights.json": "{}",
        "taggers/averaged_perceptron_tagger_eng/averaged_perceptron_tagger_eng.tagdict.json": json.dumps(
            {"crane": "NN", "slate": "NN", "test": "NN"}
        ),
        "taggers/averaged_perceptron_tagger_eng/averaged_perceptron_tagger_eng.classes.json": '["NN"]',
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
    monkeypatch.setattr(nltk, "download", lambda *names, **options: True)
    env = vf.TextArenaEnv(num_train_examples=1, feedback_fn=lambda seen: seen.split("[GAME]")[-1])
    said = ["<guess>[slate]</guess>", "<guess>[crane]</guess>"]
    results = await evaluated(
        env, lambda messages: said[sum(m["role"] == "assistant" for m in messages)]
    )
    [completion] = results["completion"]
    assert "S L A T E\nX X G X G\n" in completion[1].content
    assert completion[-1].content == "Congratulations! You guessed the word correctly!"


async def test_questions_of_reasoning_gym_are_asked_and_scored():
    """By their own answers, from a mixture of two data sets."""
    pytest.importorskip("reasoning_gym")
    env = vf.ReasoningGymEnv(
        ["chain_sum", {"name": "leg_counting", "weight": 1.0, "config": {}}], 0, 6, seed=3
    )
    right = {entry["question"]: entry["answer"] for entry in env.rg_dataset}
    results = await evaluated(
        env, lambda messages: f"<answer>{right[messages[-1]['content']]}</answer>"
    )
    assert results["reward"] == [1.0] * 6
