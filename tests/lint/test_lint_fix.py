"""Rubric files that are mended in place."""

import hashlib
import json
from importlib.resources import files

import pytest

from assay import Limits, Rubric, RubricFileError, model_of
from assay.lint import fix_rubric, lint
from assay.testing import FakeModel, ModelServer


@pytest.fixture
def write(tmp_path):
    def to(name, text):
        path = tmp_path / name
        path.write_bytes(text.encode())
        return path

    return to


def proposing(*requirements):
    """A model that always proposes these."""
    return FakeModel(json.dumps({"reason": "it is better", "requirements": list(requirements)}))


def body(text):
    """The lines of a diff that change something."""
    return [
        line
        for line in text.splitlines()
        if line.startswith(("+", "-")) and not line.startswith(("+++", "---"))
    ]


class TestWithoutAModel:
    """Only what is certain."""

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ("Does not fail to mention the dose", "Mentions the dose"),
            ("The reply doesn't fail to discuss it", "The reply discusses it"),
            ("It must not fail to have a title", "It must have a title"),
            ("The steps do not fail to add up", "The steps add up"),
        ],
    )
    def test_does_not_fail_to_becomes_does(self, write, before, after):
        """In the right form of the verb, and everything else stays."""
        path = write("a.yaml", f"# rubric\n- requirement: {before}   # a comment\n  weight: 2\n")
        fixed = fix_rubric(path)
        assert fixed.after == f"# rubric\n- requirement: {after}   # a comment\n  weight: 2\n"
        assert path.read_text().count(before) == 1

    def test_two_choices_upside_down_change_places(self, write):
        """With the quotation marks they had."""
        path = write("a.yaml", "- requirement: Names the year\n  choices: ['MET', UNMET] # two\n")
        assert fix_rubric(path).after.endswith("choices: [UNMET, 'MET'] # two\n")

    def test_what_is_a_matter_of_judgement_is_left(self, write):
        """A choice of yes and no may be meant so, and words can be chosen in many ways."""
        path = write("a.yaml", "- requirement: Is clear\n  choices: [yes, no]\n")
        fixed = fix_rubric(path)
        assert (fixed.after, fixed.diff, fixed.changed) == (fixed.before, "", ())

    def test_what_is_ignored_is_left(self, write):
        """By a comment, or by the caller."""
        text = "- requirement: Does not fail to end  # assay: ignore R006\n"
        assert not fix_rubric(write("a.yaml", text)).diff
        path = write("b.yaml", "- requirement: Does not fail to end\n")
        assert not fix_rubric(path, ignore=["R006"]).diff

    def test_a_broken_file_is_refused(self, write):
        """As the loader does."""
        with pytest.raises(RubricFileError, match="wieght"):
            fix_rubric(write("a.yaml", "- requirement: Is kind\n  wieght: 2\n"))

    def test_toml_is_left_with_a_note(self, write):
        """It cannot be edited in place."""
        path = write("a.toml", '[[criteria]]\nrequirement = "Does not fail to end"\n')
        fixed = fix_rubric(path)
        assert not fixed.diff
        assert fixed.notes == ("does_not_fail_to_end: TOML is not edited in place: do it by hand",)

    def test_what_an_anchor_names_is_left_with_a_note(self, write):
        """Elsewhere it is repeated."""
        text = "- requirement: &words Does not fail to end\n- {requirement: *words, weight: -1}\n"
        fixed = fix_rubric(write("a.yaml", text))
        assert not fixed.diff
        assert len(fixed.notes) == 2
        assert all("anchor" in note for note in fixed.notes)

    @pytest.mark.parametrize("newline", ["\n", "\r\n"])
    @pytest.mark.parametrize("mark", ["", "\ufeff"])
    def test_a_file_is_written_as_it_was(self, write, newline, mark):
        """Line ends, byte order mark, and letters that are not ASCII."""
        text = "# été 😀\n- requirement: Does not fail to end\n  name: fin é\n".replace(
            "\n", newline
        )
        path = write("a.yaml", mark + text)
        fix_rubric(path).write()
        assert path.read_bytes().decode() == mark + text.replace("Does not fail to end", "Ends")


class TestWithAModel:
    def test_a_compound_is_split_and_the_weight_shared(self, write):
        """3 into 1.5 and 1.5; tags stay, comments stay, and the file loads."""
        path = write(
            "a.yaml",
            "criteria:\n"
            "  - requirement: Names the author and gives the year  # both\n"
            "    weight: 3\n"
            "    tags: [facts]\n"
            "\n"
            "  # the next one\n"
            "  - requirement: Is written in French\n",
        )
        fixed = fix_rubric(path, model=proposing("Names the author", "Gives the year"))
        assert body(fixed.diff) == [
            "-  - requirement: Names the author and gives the year  # both",
            "-    weight: 3",
            "+  - requirement: Names the author  # both",
            "+    weight: 1.5",
            "+  - requirement: Gives the year",
            "+    weight: 1.5",
            "+    tags:",
            "+    - facts",
        ]
        criteria = Rubric.from_yaml(fixed.after).criteria
        assert [(c.name, c.weight, c.tags) for c in criteria] == [
            ("names_the_author", 1.5, ("facts",)),
            ("gives_the_year", 1.5, ("facts",)),
            ("is_written_in_french", 1, ()),
        ]

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("a.json", '[{"requirement": "Names the author and gives the year"}]'),
            (
                "b.json",
                '{"criteria": [\n  {\n    "requirement": "Names the author and gives the year"\n  }\n]}\n',
            ),
            ("c.yaml", "criteria: [{requirement: Names the author and gives the year}]\n"),
            (
                "d.yaml",
                "- requirement: |\n    Names the author and gives the year\n- check: refusal\n  weight: -1\n",
            ),
            ("e.yaml", "- requirement: 'Names the author and gives the year'"),
            ("f.yaml", "-\n  requirement: Names the author\n    and gives the year\n"),
            (
                "g.yaml",
                "- name: in\n  rubric:\n  - requirement: Names the author and gives the year\n    weight: 1\n",
            ),
        ],
    )
    def test_every_way_to_write_a_list_can_be_split(self, write, name, text):
        """And a weight that was not written down is."""
        fixed = fix_rubric(write(name, text), model=proposing("Names the author", "It's short"))
        rubric = (Rubric.from_json if name.endswith("json") else Rubric.from_yaml)(fixed.after)
        inner = getattr(rubric.criteria[0].check, "criteria", rubric.criteria)
        assert [(c.requirement, c.weight) for c in inner[:2]] == [
            ("Names the author", 0.5),
            ("It's short", 0.5),
        ]

    def test_the_parts_of_a_compound_have_its_mended_choices(self, write):
        """What is certain is mended in each of them."""
        text = "- requirement: Names the author and gives the year\n  choices: [MET, UNMET]\n"
        model = proposing("Names the author", "Gives the year")
        fixed = fix_rubric(write("a.yaml", text), model=model)
        criteria = Rubric.from_yaml(fixed.after).criteria
        assert [(c.requirement, c.choices) for c in criteria] == [
            ("Names the author", ("UNMET", "MET")),
            ("Gives the year", ("UNMET", "MET")),
        ]

    def test_a_name_that_others_wait_for_is_kept(self, write):
        """It came from the old words, and a `when` asks for it."""
        path = write(
            "a.yaml", "- requirement: Is clear\n- requirement: Names the year\n  when: is_clear\n"
        )
        fixed = fix_rubric(path, model=proposing("Has one idea a paragraph"))
        assert Rubric.from_yaml(fixed.after).criteria[0].name == "is_clear"
        assert body(fixed.diff) == [
            "-- requirement: Is clear",
            "+- requirement: Has one idea a paragraph",
            "+  name: is_clear",
        ]

    def test_what_others_wait_for_is_not_split(self, write):
        """It is not known for which half they wait."""
        path = write(
            "a.yaml",
            "- requirement: Names the author and gives the year\n  name: both\n"
            "- requirement: Names the place\n  when: both\n",
        )
        fixed = fix_rubric(path, model=proposing("Names the author", "Gives the year"))
        assert not fixed.diff
        assert "split it by hand" in fixed.notes[0]

    def test_a_proposal_that_is_no_better_is_not_taken(self, write):
        """The model is told, and then it is a note."""
        path = write("a.yaml", "- requirement: Is clear\n")
        with ModelServer(json.dumps({"reason": "r", "requirements": ["Is good"]})) as server:
            fixed = fix_rubric(path, model=server.model)
        assert server.calls == 2
        assert "'Is good' is no better: 'good' means something else" in server.requests[1].user
        assert not fixed.diff
        assert fixed.notes[0].startswith("is_clear: ")

    def test_one_thing_is_not_split(self, write):
        """Only what asks two things may become two."""
        path = write("a.yaml", "- requirement: Is clear\n")
        fixed = fix_rubric(path, model=proposing("Names the year", "Names the place"))
        assert not fixed.diff
        assert "it splits a criterion that asks one thing" in fixed.notes[0]

    @pytest.mark.slow
    def test_a_model_that_fails_is_a_note(self, write):
        """What is certain is mended all the same."""
        path = write("a.yaml", "- requirement: Is clear\n- requirement: Does not fail to end\n")
        with ModelServer(RuntimeError("no")) as server:
            # Two attempts, because the pauses between ten take most of a minute.
            model = model_of(server.model, limits=Limits(attempts=2))
            fixed = fix_rubric(path, model=model)
        assert fixed.changed == ("does_not_fail_to_end",)
        assert fixed.notes[0].startswith("is_clear: ")

    def test_the_model_is_told_what_is_wrong(self, write):
        """The criterion as data, with each problem and the advice."""
        model = proposing("Names the year")
        fix_rubric(write("a.yaml", "- requirement: Is clear\n  weight: -2\n"), model=model)
        asked = json.loads(model.calls[0][1])
        assert (asked["requirement"], asked["weight"]) == ("Is clear", -2)
        assert asked["problems"][0].startswith("'clear' means something else to every reader; say")
        assert "You mend one criterion of a rubric" in model.calls[0][0]

    @pytest.mark.parametrize(
        "words",
        ["Says: yes", "Is it #1?", "[x] is set", "- is a dash", "yes", '"Hi" he says', "a: b # c"],
    )
    def test_words_are_quoted_where_they_must_be(self, write, words):
        """They are read back as they are, in a block and in brackets."""
        for name, text in (
            ("a.yaml", "- requirement: Is clear\n"),
            ("b.yaml", "[{requirement: Is clear}]\n"),
            ("c.yaml", "- requirement: 'Is clear'\n"),
        ):
            fixed = fix_rubric(write(name, text), model=proposing(words))
            assert Rubric.from_yaml(fixed.after).criteria[0].requirement == words

    def test_what_was_mended_is_found_no_more(self, write):
        """The whole way round."""
        path = write("a.yaml", "- requirement: Cites several sources\n")
        fix_rubric(path, model=proposing("Cites at least three sources")).write()
        assert lint(path) == []


def test_a_prompt_whose_words_change_gets_a_new_version():
    """Bump the number in its first line, and put the new hash here."""
    prompt = files("assay.lint").joinpath("prompts", "lint_rewrite.md").read_text("utf-8")
    assert prompt.startswith("<!-- version 1 -->")
    assert hashlib.sha256(prompt.encode()).hexdigest()[:16] == "f1ec8e26bb3abd4a"
