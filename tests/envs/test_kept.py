"""An evaluation that names a folder is kept there, and can be gone on with."""

import signal
import subprocess
import sys
import textwrap
import time

import pytest

from assay import Criterion, PerCriterionGrader, Rubric
from assay.envs import SingleTurnEnv
from assay.runs import Run, RunError
from assay.runs.run_file import RunFile
from assay.runs.run_schema import is_run
from assay.testing import Fault, ModelServer

REWARDS = [1.0] * 7 + [0.0]


@pytest.fixture
def env(questions, rubric):
    return SingleTurnEnv(questions, rubric=rubric, system_prompt="Add.")


def lines(folder):
    if not is_run(folder):
        return []
    return [data for (data,) in RunFile(folder).select("SELECT data FROM rollouts ORDER BY id")]


def test_a_run_is_a_folder(env, server, tmp_path):
    """What was run, a row a rollout, and what it comes to."""
    results = env.evaluate(
        model=server.model, run=tmp_path / "run", sampling_args={"temperature": 0.5}
    )
    run = Run.open(tmp_path / "run")
    assert (run.about.kind, run.about.model) == ("evaluate", server.model)
    assert run.about.config["sampling_args"] == {"temperature": 0.5}
    assert [row.reward for row in sorted(run.rows(), key=lambda row: int(row.example))] == REWARDS
    row = run.row("3")
    assert row.fields["completion"] == [{"role": "assistant", "content": "4"}]
    assert (row.fields["answer"], row.model) == ("4", "test-2026-01-01")
    assert (row.spent.calls, row.spent.cost) == (1, None)  # no price is known for 127.0.0.1
    assert set(row.timing) == {"generation", "scoring"}
    assert run.about.resolved == ("test-2026-01-01",)
    assert run.summary() == results.summary()
    assert results.metadata["path_to_save"] == str(tmp_path / "run")


def test_a_folder_that_has_a_run_is_left_alone(env, server, tmp_path):
    """Unless it is to be gone on with."""
    env.evaluate(model=server.model, run=tmp_path)
    with pytest.raises(RunError, match="holds a run already"):
        env.evaluate(model=server.model, run=tmp_path)


def test_what_is_done_is_not_done_again(env, server, tmp_path):
    """And is in the results all the same."""
    env.evaluate(model=server.model, run=tmp_path, num_examples=3)
    results = env.evaluate(model=server.model, run=tmp_path, resume=True)
    assert server.calls == 8
    assert results["reward"] == REWARDS
    assert results["completion"][0] == [{"role": "assistant", "content": "1"}]
    assert results.metadata["num_rollouts"] == 8
    assert results.summary().complete


def test_more_samples_can_be_added(env, server, tmp_path):
    """Of the same examples."""
    env.evaluate(model=server.model, run=tmp_path)
    results = env.evaluate(model=server.model, run=tmp_path, resume=True, rollouts_per_example=3)
    assert server.calls == 24
    assert results["reward"] == [reward for reward in REWARDS for _ in range(3)]


def test_what_failed_is_done_again(questions, rubric, serve, tmp_path):
    """And only that."""
    server = serve(faults=[Fault.refusing("no"), None, Fault.refusing("no")])
    env = SingleTurnEnv(questions, rubric=rubric)
    first = env.evaluate(model=server.model, run=tmp_path, max_concurrent=1)
    assert first.metadata["num_errors"] == 2
    second = env.evaluate(model=server.model, run=tmp_path, resume=True)
    assert second["reward"] == REWARDS
    assert len(server.requests) == 10
    assert Run.open(tmp_path).summary().failed == 0


def test_another_evaluation_is_refused(env, questions, rubric, server, tmp_path):
    """With what differs."""
    env.evaluate(model=server.model, run=tmp_path, num_examples=1)
    with pytest.raises(RunError, match="temperature"):
        env.evaluate(
            model=server.model, run=tmp_path, resume=True, sampling_args={"temperature": 1}
        )
    other = SingleTurnEnv(questions, rubric=rubric, system_prompt="Subtract.")
    with pytest.raises(RunError, match="the data have changed"):
        other.evaluate(model=server.model, run=tmp_path, resume=True)
    changed = SingleTurnEnv(questions, rubric=Rubric([lambda: 1.0]), system_prompt="Add.")
    with pytest.raises(RunError, match="the rubric has changed"):
        changed.evaluate(model=server.model, run=tmp_path, resume=True)


def test_stopping_finishes_what_is_under_way(env, server, tmp_path):
    """Writes it, and leaves the rest for later."""
    results = env.evaluate(
        model=server.model, run=tmp_path, max_concurrent=1, stopping=lambda: server.calls >= 3
    )
    assert len(results.outputs) == len(lines(tmp_path)) == 3
    assert not results.summary().complete
    again = env.evaluate(model=server.model, run=tmp_path, resume=True)
    assert again["reward"] == REWARDS
    assert server.calls == 8


def test_a_part_of_a_group_is_kept_when_its_rollouts_are_not_compared(env, server, tmp_path):
    """Each stands for itself."""
    env.evaluate(
        model=server.model,
        run=tmp_path,
        rollouts_per_example=4,
        max_concurrent=1,
        stopping=lambda: server.calls >= 6,
    )
    assert len(lines(tmp_path)) == 6


def test_a_part_of_a_group_that_is_compared_is_done_again(questions, server, tmp_path):
    """For it is no group."""

    def first(completions) -> list[float]:
        return [float(not place) for place in range(len(completions))]

    env = SingleTurnEnv(questions, rubric=Rubric([first]))
    options = {"run": tmp_path, "rollouts_per_example": 4, "max_concurrent": 1}
    env.evaluate(model=server.model, stopping=lambda: server.calls >= 6, **options)
    assert len(lines(tmp_path)) == 4
    results = env.evaluate(model=server.model, resume=True, **options)
    assert results["reward"] == [1.0, 0.0, 0.0, 0.0] * 8


def test_progress_is_told(env, serve, tmp_path):
    """At the end at the latest, with what was there before."""
    server = serve()
    told = []
    env.evaluate(model=server.model, run=tmp_path, num_examples=3)
    env.evaluate(model=server.model, run=tmp_path, resume=True, on_progress=told.append)
    last = told[-1]
    assert (last.done, last.total, last.kept, last.errors) == (8, 8, 3, 0)
    assert (last.calls, last.cost) == (5, 0.0)


def test_rows_are_shown_as_they_come(env, server):
    """Also where nothing is saved."""
    rows = []
    env.evaluate(model=server.model, on_row=rows.append)
    assert sorted(row.example for row in rows) == [str(n) for n in range(8)]
    assert sum(row.reward for row in rows) == 7


def test_what_judging_took_is_in_the_rows(questions, serve, server, tmp_path):
    """Shared out over the group, so that it adds up."""
    judge = serve("MET")
    rubric = Rubric(
        [Criterion(requirement="Is right")], judge=PerCriterionGrader(model=judge.model)
    )
    results = SingleTurnEnv(questions, rubric=rubric).evaluate(
        model=server.model, run=tmp_path, num_examples=2, rollouts_per_example=2
    )
    run = Run.open(tmp_path)
    spent = results.summary().spent
    # Equal answers to one question are judged once.
    assert (server.calls, judge.calls, spent.calls) == (4, 2, 6)
    assert spent.prompt == server.prompt_tokens + judge.prompt_tokens
    assert run.about.judge is not None
    assert sum(row.spent.calls for row in run.rows()) == 6


def test_a_key_is_not_written(env, serve, tmp_path):
    """Whatever way it was given."""
    import openai

    server = serve()
    with openai.OpenAI(base_url=server.url, api_key="sk-secret") as client:
        env.evaluate(client, "test", num_examples=1, run=tmp_path)
    written = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
    assert b"sk-secret" not in written


PROGRAM = """
    import sys
    from assay import Rubric
    from assay.envs import SingleTurnEnv

    rows = [{"prompt": f"{n} + 1?", "answer": str(n + 1)} for n in range(40)]
    exact = Rubric([lambda completion, answer: completion == answer])
    env = SingleTurnEnv(rows, rubric=exact)
    env.evaluate(model=sys.argv[1], run=sys.argv[2], resume=True, max_concurrent=4)
"""


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT])
def test_an_evaluation_that_was_broken_off_goes_on_where_it_was(serve, tmp_path, sent):
    """By a kill or by Ctrl-C: what was finished by then is not asked again."""
    running = []

    def rule(messages):
        if server.calls == 12 and running:
            running.pop().send_signal(sent)
        return str(int(messages[-1]["content"].split()[0]) + 1)

    server = serve(rule)
    folder = tmp_path / "run"
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))
    command = [sys.executable, str(program), server.model, str(folder)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    running.append(process)
    assert process.wait() != 0
    kept, before = len(lines(folder)), len(server.requests)
    # What was generated and not scored yet is not asked again either.
    waiting = RunFile(folder).select_value("SELECT count(*) FROM generations")
    # Four go at once, and four may have been answered and wait to be written down together.
    assert before - 8 <= kept < 40
    subprocess.run(command, check=True)
    rows = list(Run.open(folder).rows())
    assert sorted(int(row.example) for row in rows) == list(range(40))
    assert [row.reward for row in rows] == [1.0] * 40
    assert len(server.requests) - before == 40 - kept - waiting
    assert Run.open(folder).summary().rollouts == 40


JUDGED = """
    import sys
    from assay import PerCriterionGrader, Rubric
    from assay.envs import SingleTurnEnv
    from assay.models import model_of

    rows = [{"prompt": f"{n} + 1?", "answer": str(n + 1)} for n in range(40)]
    judge = PerCriterionGrader(model=model_of(sys.argv[2], cache=None))
    env = SingleTurnEnv(rows, rubric=Rubric([{"requirement": "Is right"}], judge=judge))
    env.evaluate(model=sys.argv[1], run=sys.argv[3], resume=True, max_concurrent=20)
"""


@pytest.mark.slow
def test_a_kill_while_judges_are_asked_loses_no_generation(serve, tmp_path):
    """The model answers at once and the judge after half a second: only judging is repeated."""
    judge, server = ModelServer("MET", latency=0.5), serve()
    program, folder = tmp_path / "program.py", tmp_path / "run"
    program.write_text(textwrap.dedent(JUDGED))
    with judge:
        command = [sys.executable, str(program), server.model, judge.model, str(folder)]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
            while process.poll() is None and judge.calls < 25:
                time.sleep(0.001)
            process.kill()
        waiting = RunFile(folder).select_value("SELECT count(*) FROM generations")
        rows_before, asked_before = len(lines(folder)), len(server.requests)
        assert rows_before < 40
        assert waiting > 0
        # What was neither saved nor judged was in flight when the process was killed.
        in_flight = asked_before - waiting - rows_before
        assert 0 <= in_flight <= 20
        subprocess.run(command, check=True)
    assert len(server.requests) == 40 + in_flight
    rows = list(Run.open(folder).rows())
    assert [row.reward for row in rows] == [1.0] * 40
    assert all(row.spent_on_model.calls == 1 for row in rows)
    assert RunFile(folder).select("SELECT * FROM generations") == []


def test_a_judge_that_fails_costs_no_second_generation(serve, tmp_path):
    """Only the judge is asked again when the run is resumed."""
    up = tmp_path / "up"

    def judge(system_prompt, user_prompt):
        if not up.exists():
            raise ConnectionError("the judge is down")
        return {"criterion_status": "MET", "explanation": ""}

    grader = PerCriterionGrader(generate_fn=judge)
    rows = [{"prompt": "1 + 1?"}, {"prompt": "2 + 2?"}]
    env = SingleTurnEnv(rows, rubric=Rubric([{"requirement": "Is right"}], judge=grader))
    server = serve()
    first = env.evaluate(model=server.model, run=tmp_path / "run")
    assert first.metadata["num_unscored"] == 2
    up.touch()
    second = env.evaluate(model=server.model, run=tmp_path / "run", resume=True)
    assert [output["reward"] for output in second.outputs] == [1.0, 1.0]
    assert len(server.requests) == 2


def test_an_environment_with_objects_in_its_state_generates_again(serve, tmp_path):
    """They cannot be saved, so nothing is judged without them."""

    class Stateful(SingleTurnEnv):
        async def attempt(self, *asked):
            state = await super().attempt(*asked)
            return state | {"sandbox": object()}

    def works(state):
        if not (tmp_path / "up").exists():
            raise ConnectionError("the checker is down")
        return state["sandbox"] is not None

    env = Stateful([{"prompt": "1 + 1?"}], rubric=Rubric([works]))
    server = serve()
    env.evaluate(model=server.model, run=tmp_path / "run")
    (tmp_path / "up").touch()
    done = env.evaluate(model=server.model, run=tmp_path / "run", resume=True)
    assert [output["reward"] for output in done.outputs] == [1.0]
    assert len(server.requests) == 2
