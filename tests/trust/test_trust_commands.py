"""`assay agree`, `assay correct` and `assay compare`."""

import csv
import json
from pathlib import Path

import pytest

from assay import Criterion, Rubric
from assay.cli import main
from assay.trust import hash_text

RUBRIC = [{"requirement": "Is polite", "weight": 3}, {"requirement": "Is short", "weight": 1}]


def verdict(yes):
    return "MET" if yes else "UNMET"


def said(judge, count=120):
    """Short throughout; polite where the function says so."""
    return [
        (str(n), {"is_polite": verdict(judge(n)), "is_short": verdict(n % 2)}) for n in range(count)
    ]


def kind(n):
    """Two of three."""
    return n % 3 < 2


def strict(n):
    """One of three."""
    return n % 3 < 1


@pytest.fixture
def run(make_run):
    return str(make_run("run", RUBRIC, said(kind)).path)


@pytest.fixture
def labels(tmp_path):
    """60 rollouts, labelled on both criteria by ann, and half of them by bob."""
    path = tmp_path / "labels.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["example", "criterion", "verdict", "rater"])
        for n in range(60):
            for rater in ("ann", "bob") if n % 2 else ("ann",):
                writer.writerow([n, "is_polite", verdict(strict(n)), rater])
                writer.writerow([n, "is_short", verdict(n % 2), rater])
    return str(path)


class TestAgree:
    def test_the_judge_stands_beside_people(self, run, labels, capsys):
        """On polite it agrees on two of three; people always agree."""
        assert main(["agree", run, labels]) == 0
        out = capsys.readouterr().out
        assert "the judge against 2 people, 60 examples" in out
        polite = next(line for line in out.splitlines() if line.startswith("is_polite"))
        figures = ["60", "0", "0.67", "1.00", "0.40", "1.00", "0.33"]
        assert polite.split() == ["is_polite", *figures, "30", "0"]

    def test_the_labels_of_the_page_are_taken_when_none_are_named(self, run, capsys):
        """They lie in the run's folder."""
        line = {"example": "1", "criterion": "is_polite", "verdict": "MET", "rater": "ann"}
        (Path(run) / "labels.jsonl").write_text(f"{json.dumps(line)}\n")
        assert main(["agree", run, "-f", "json"]) == 0
        assert json.loads(capsys.readouterr().out)["overall"]["labelled"] == 1

    def test_without_any_labels_it_says_what_to_do(self, run, capsys):
        """Bad usage."""
        assert main(["agree", run]) == 2
        assert "give a file of labels" in capsys.readouterr().err

    def test_labels_that_do_not_fit_are_refused_with_counts(self, run, tmp_path, capsys):
        """And can be left out."""
        path = tmp_path / "wrong.csv"
        path.write_text("example,criterion,verdict\n1,is_polite,MET\n1,is_kind,MET\n")
        assert main(["agree", run, str(path)]) == 2
        assert "1 label about criteria it does not have: 'is_kind'" in capsys.readouterr().err
        assert main(["agree", run, str(path), "--skip-unknown"]) == 0
        assert "left out: 1 label, unknown criterion" in capsys.readouterr().out

    def test_labels_of_several_files_are_merged(self, run, tmp_path, capsys):
        """Anna wrote her name in two ways, and is one person."""
        for name, rater, first in (
            ("a.csv", "Anna", 0),
            ("b.csv", "bob", 0),
            ("c.csv", " anna", 5),
        ):
            rows = "".join(f"{n},is_polite,MET,{rater}\n" for n in range(first, first + 5))
            (tmp_path / name).write_text(f"example,criterion,verdict,rater\n{rows}")
        files = [str(tmp_path / name) for name in ("a.csv", "b.csv", "c.csv")]
        assert main(["agree", run, *files, "-f", "json"]) == 0
        raters = json.loads(capsys.readouterr().out)["raters"]
        assert [(rater["rater"], rater["labels"]) for rater in raters] == [("Anna", 10), ("bob", 5)]

    def test_labels_whose_text_has_changed_are_counted_and_named(self, make_run, tmp_path, capsys):
        """A row was inserted at the top, and row 7 of the old run has new words."""
        labels = tmp_path / "labels.jsonl"
        with labels.open("w") as file:
            for n in range(20):
                label = {"example": str(n), "criterion": "is_polite", "verdict": verdict(kind(n))}
                label["text_hash"] = hash_text("Write.", f"mail {n}")
                print(json.dumps(label), file=file)
        texts = ["mail", *(f"mail {n}" for n in range(20))]
        texts[8] = "other words"
        rows = [
            {
                "example": str(n),
                "prompt": "Write.",
                "completion": text,
                "answers": {"is_polite": verdict(kind(n - 1)), "is_short": "MET"},
            }
            for n, text in enumerate(texts)
        ]
        new = make_run("new", RUBRIC, rows)
        assert main(["agree", str(new.path), str(labels)]) == 0
        out = capsys.readouterr().out
        polite = next(line for line in out.splitlines() if line.startswith("is_polite"))
        assert polite.split()[:4] == ["is_polite", "19", "0", "1.00"]
        assert "left out: 1 label whose prompt or completion is not in this run: '7'" in out
        assert "19 labels used for the row that has their text" in out

    def test_labels_that_were_matched_by_row_number_are_counted(self, run, labels, capsys):
        """Rows without an id, and labels without a hash of their text."""
        assert main(["agree", run, labels]) == 0
        assert "180 labels matched by row number" in capsys.readouterr().out

    def test_columns_can_be_mapped(self, run, tmp_path):
        """As everywhere."""
        path = tmp_path / "own.csv"
        path.write_text("item,criterion,grade\n1,is_polite,MET\n")
        mapping = ["--map", "example=item", "--map", "verdict=grade"]
        assert main(["agree", run, str(path), *mapping]) == 0

    def test_who_said_what_is_shown_on_request(self, run, labels, capsys):
        """20 of 30 polite by both, 0 the other way round."""
        assert (
            main(["agree", run, labels, "--confusion", "-f", "markdown", "--against", "majority"])
            == 0
        )
        out = capsys.readouterr().out
        assert "| is\\_polite: people down, judge across | UNMET | MET |" in out
        assert "| UNMET | 20 | 20 |\n| MET | 0 | 20 |" in out

    def test_answers_that_are_numbers_have_no_table_of_choices(self, make_run, tmp_path, capsys):
        """But bias and alpha: what they differ by is 1 throughout."""
        rubric = Rubric([Criterion(check=lambda value: value, name="length")])
        scored = make_run("numbers", rubric, [(str(n), {"length": n + 1.5}) for n in range(40)])
        path = tmp_path / "numbers.csv"
        rows = "\n".join(f"{n},length,{n + 0.5}" for n in range(40))
        path.write_text(f"example,criterion,verdict\n{rows}\n")
        assert main(["agree", str(scored.path), str(path)]) == 0
        out = capsys.readouterr().out
        assert "the judge against people, 40 examples" in out
        assert "Cohen's kappa" not in out
        length = next(line for line in out.splitlines() if line.startswith("length"))
        assert length.split() == ["length", "40", "0", "–", "–", "–", "–", "1.00", "1.00", "–"]

    def test_a_second_run_shows_whether_the_judge_repeats_itself(
        self, run, labels, make_run, capsys
    ):
        """The same rollouts, judged otherwise on one of three: 5 of 6 verdicts stay."""
        again = str(make_run("again", RUBRIC, said(strict)).path)
        assert main(["agree", run, labels, "--again", again]) == 0
        assert "asked again           0.83" in capsys.readouterr().out


class TestCorrect:
    def test_rates_and_score_are_given_as_people_would_have_judged(self, run, labels, capsys):
        """The judge says 0.67 polite, people 0.33; score (3·polite + short) / 4."""
        assert main(["correct", run, labels, "-f", "json"]) == 0
        data = json.loads(capsys.readouterr().out)
        polite, _ = data["criteria"]
        assert polite["judge"]["value"] == pytest.approx(2 / 3)
        assert polite["corrected"]["rogan_gladen"]["value"] == pytest.approx(1 / 3)
        assert data["score"]["people"]["value"] == pytest.approx((3 / 3 + 1 / 2) / 4)

    def test_the_table_says_what_more_labels_would_do(self, run, labels, capsys):
        """And how good the judge is."""
        assert main(["correct", run, labels]) == 0
        out = capsys.readouterr().out
        assert "to halve" in out
        assert "sensitivity" in out

    def test_too_few_labels_are_refused_with_a_failure(self, run, tmp_path, capsys):
        """Nothing could be corrected."""
        path = tmp_path / "few.csv"
        rows = "".join(f"{n},is_polite,{verdict(strict(n))}\n" for n in range(12))
        path.write_text(f"example,criterion,verdict\n{rows}")
        assert main(["correct", run, str(path)]) == 1
        out = capsys.readouterr().out
        assert "refused: 12 labelled examples are too few" in out
        assert "label 18 more" in out

    def test_what_is_refused_for_all_figures_is_refused_once(self, run, tmp_path, capsys):
        """Score and both criteria have twelve labels each."""
        path = tmp_path / "few.csv"
        lines = ["example,criterion,verdict"]
        for n in range(12):
            lines += [f"{n},is_polite,{verdict(strict(n))}", f"{n},is_short,{verdict(n % 2)}"]
        path.write_text("\n".join(lines))
        assert main(["correct", run, str(path)]) == 1
        assert capsys.readouterr().out.count("are too few") == 1

    def test_drift_since_an_earlier_run(self, run, labels, make_run, capsys):
        """The judge was strict, and agreed with people; now it is kind."""
        earlier = str(make_run("earlier", RUBRIC, said(strict)).path)
        assert main(["correct", run, labels, "--drift", earlier]) == 0
        out = capsys.readouterr().out
        assert "the judge has changed on is_polite" in out
        assert "1.00 to 0.67" in out
        assert "another completion" not in out

    def test_a_judge_that_has_not_moved_is_not_said_to(self, run, labels, make_run, capsys):
        """The same verdicts; and three rollouts with other words, which tell nothing about the judge."""
        rows = [{"example": example, "answers": answers} for example, answers in said(kind)]
        for row in rows[90:93]:
            row["completion"] = "another"
        earlier = str(make_run("earlier", RUBRIC, rows).path)
        assert main(["correct", run, labels, "--drift", earlier]) == 0
        out = capsys.readouterr().out
        assert "there is no evidence that the judge has changed" in out
        assert "3 rollouts with another completion say nothing about the judge" in out


def test_agreement_counts_false_positives_and_false_negatives(make_run, tmp_path, capsys):
    """Of a fault, a false positive is one that only the judge sees; its verdicts have words of their own."""
    rubric = [{"requirement": "Is polite"}, {"requirement": "Is rude", "weight": -2}]
    judged = [("0", "MET", "MET"), ("1", "MET", "MET"), ("2", "UNMET", "UNMET")]
    rows = [(example, {"is_polite": polite, "is_rude": rude}) for example, polite, rude in judged]
    run = str(make_run("mails", rubric, rows).path)
    path = tmp_path / "labels.csv"
    path.write_text(
        "example,criterion,verdict\n"
        "0,is_polite,UNMET\n1,is_polite,UNMET\n2,is_polite,MET\n"
        "0,is_rude,UNMET\n1,is_rude,MET\n2,is_rude,UNMET\n"
    )
    assert main(["agree", run, str(path), "--confusion"]) == 0
    out = capsys.readouterr().out
    lines = [line.split() for line in out.splitlines()]
    table = {line[0]: line[-2:] for line in lines if line[:1] in (["is_polite"], ["is_rude"])}
    assert table == {"is_polite": ["2", "1"], "is_rude": ["1", "0"]}
    assert "is_rude: people down, judge across  avoided  happened" in out
    assert "negative: is_rude; happened (MET) is bad" in out


class TestCompare:
    def test_differences_and_flips(self, run, make_run, capsys):
        """A third of the examples fell by 3 of 4 points."""
        after = str(make_run("after", RUBRIC, said(strict)).path)
        assert main(["compare", run, after, "--flips", "2"]) == 0
        out = capsys.readouterr().out
        assert out.startswith("after is worse than run: its mean score is 0.250 lower")
        assert "120 examples in both runs" in out
        assert "-0.250" in out
        assert "MET → UNMET" in out
        assert "the result of 40 rollouts changed, of which 2 are shown" in out

    def test_a_fall_beyond_chance_can_fail(self, run, make_run, capsys):
        """100, and only in that direction; the decision stands on stderr too."""
        after = str(make_run("after", RUBRIC, said(strict)).path)
        assert main(["compare", run, after, "--fail-if-worse"]) == 100
        printed = capsys.readouterr()
        assert printed.err == f"{printed.out.splitlines()[0]}\n"
        assert main(["compare", after, run, "--fail-if-worse"]) == 0
        assert capsys.readouterr().err.startswith("run is better than after")

    def test_a_run_may_be_named_by_its_file(self, run, make_run, capsys):
        after = str(make_run("after", RUBRIC, said(strict)).path)
        assert main(["compare", f"{run}/run.assay", f"{after}/run.assay"]) == 0
        assert capsys.readouterr().out.startswith("after is worse than run")

    def test_different_rubrics_cannot_fail_a_gate(self, run, make_run, capsys):
        """The shared criterion is compared; whether the score fell, nobody knows."""
        reworded = [{"requirement": "Is very polite", "name": "is_polite"}, RUBRIC[1]]
        after = str(make_run("after", reworded, said(strict)).path)
        assert main(["compare", run, after]) == 0
        assert "is_polite has another wording" in capsys.readouterr().out
        assert main(["compare", run, after, "--fail-if-worse"]) == 2
        assert "used different rubrics: score run again" in capsys.readouterr().err

    def test_rollouts_that_differ_are_shown_with_both_transcripts(self, run, make_run, capsys):
        """In two columns; in JSON as the messages are."""
        rows = [{"example": example, "answers": answers} for example, answers in said(strict)]
        for row in rows:
            row["completion"] = f"another answer {row['example']}"
        after = str(make_run("after", RUBRIC, rows).path)
        assert main(["compare", run, after, "--differs", "--flips", "1"]) == 0
        out = capsys.readouterr().out
        assert "20 rollouts pass in one run and fail in the other, of which 1 are shown" in out
        lines = out.splitlines()
        start = next(number for number, line in enumerate(lines) if "passes → fails" in line)
        example = lines[start].partition(":")[0]
        assert lines[start + 1].split() == ["run", "│", "after"]
        left, right = lines[start + 4].split("│")
        assert left.strip() == f"assistant: answer {example}"
        assert right.strip() == f"assistant: another answer {example}"
        main(["compare", run, after, "--differs", "--flips", "1", "-f", "json"])
        data = json.loads(capsys.readouterr().out)
        assert data["decision"] == lines[0]
        [transcript] = data["transcripts"]
        assert transcript["completions"] == [f"answer {example}", f"another answer {example}"]
        assert main(["compare", run, after, "--differs", "--pass-at", "0"]) == 0
        assert "no rollout passes in one run" in capsys.readouterr().out

    def test_a_fall_that_chance_can_make_does_not_fail(self, make_run):
        """One example of three."""
        before, after = (
            str(make_run(name, RUBRIC, said(judge, 3)).path)
            for name, judge in (("a", kind), ("b", strict))
        )
        assert main(["compare", before, after, "--fail-if-worse"]) == 0

    def test_nothing_scored_is_no_success(self, make_run, capsys):
        """Where the judge never answered, nobody knows whether the second run is worse."""
        rubric = [{"requirement": "Is polite"}]
        broken = [(str(n), {"is_polite": TimeoutError("no reply")}) for n in range(20)]
        fine = [(str(n), {"is_polite": "MET"}) for n in range(20)]
        paths = [
            str(make_run(name, rubric, rows).path) for name, rows in (("a", fine), ("b", broken))
        ]
        assert main(["compare", *paths, "--fail-if-worse"]) == 1
        assert "20 of the second" in capsys.readouterr().out

    def test_runs_on_other_data_are_refused(self, run, make_run, capsys):
        """Bad usage."""
        other = make_run("other", RUBRIC, [("x", {"is_polite": "MET", "is_short": "MET"})])
        assert main(["compare", run, str(other.path)]) == 2
        assert "no example in common" in capsys.readouterr().err

    def test_a_folder_without_a_run_is_refused(self, run, tmp_path, capsys):
        """By name."""
        assert main(["compare", run, str(tmp_path)]) == 2
        assert "so it is not a run" in capsys.readouterr().err
