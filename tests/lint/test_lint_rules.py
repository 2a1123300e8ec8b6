"""What each rule finds in a criterion, and what it leaves alone."""

import pytest

from assay import Criterion, Rubric, RubricError
from assay.criterion import MAX_MAGNITUDE
from assay.lint import Finding, lint


def rules(requirement, **fields):
    """The ids of what is found in one criterion; beside it stands one that is beyond reproach."""
    beside = {"requirement": "Names Ouagadougou as the capital", "name": "beside"}
    found = lint(Rubric.from_dict([{"requirement": requirement, **fields}, beside]))
    return [finding.id for finding in found]


def pair(first, second, one=1, two=1):
    criteria = [{"requirement": first, "weight": one}, {"requirement": second, "weight": two}]
    return [finding.id for finding in lint(Rubric.from_dict(criteria))]


class TestCompound:
    @pytest.mark.parametrize(
        "requirement",
        [
            "Explains the risk and recommends a doctor",
            "Does the response name the author and give the year?",
            "The reply should greet the user and ask for the order number",
            "States that the earth is round and cites a source",
            "Is accurate and polite",
            "Answers politely and clearly",
            "Names the dose and the route",
            "Mentions both efficacy and tolerability",
            "Names the author; gives the year",
            "The answer gives the dose. It also names the route.",
            "Is the answer short while remaining polite?",
        ],
    )
    def test_two_claims_in_one_are_found(self, requirement):
        """Whatever joins them."""
        assert "R001" in rules(requirement)

    @pytest.mark.parametrize(
        "requirement",
        [
            "Gives the solutions x = 2 and x = -3",
            "Names Marie Curie and Pierre Curie",
            "Quotes the phrase 'explains and cites'",
            "Explains the difference between the mean and the median",
            "States that the drug lowers blood pressure and reduces stroke",
            "Names a bank that offers loans and gives advice",
            "If the user asks and gives a date, answers with that date",
            "Suggests calling a doctor or asks about symptoms",
            "Mentions terms and conditions",
            "Contains between 400 and 600 words",
            "Deeply and broadly explains entropy",
        ],
    )
    def test_one_claim_with_an_and_in_it_is_one(self, requirement):
        """Names, quotations, relations, what is reported, and alternatives."""
        assert "R001" not in rules(requirement)


class TestVague:
    @pytest.mark.parametrize(
        "requirement",
        [
            "Gives good advice",
            "Is clear",
            "Handles errors properly",
            "Uses an appropriate tone",
            "Quality of the translation",
            "Is well written",
        ],
    )
    def test_praise_without_a_measure_is_found(self, requirement):
        """Two readers would settle it differently."""
        assert rules(requirement) == ["R002"]

    @pytest.mark.parametrize(
        "requirement",
        [
            "Recommends clear broth",
            "Defines the reasonable person standard",
            "States the effective date",
            "Says that the drug is not effective",
            'Uses the word "good"',
            "Is concise: at most fifty words in all",
            "Is concise (at most 50 words)",
            "Is detailed enough to rebuild the machine",
            "Is easy to understand for a child of ten",
            "Handles errors properly by catching ValueError",
            "Clearly states the price",
            "Names the Good Friday Agreement",
            "Runs as well on Windows",
            "Has good coverage, that is, every line is run",
            "Uses the more efficient of the two",
        ],
    )
    def test_words_with_a_meaning_are_left_alone(self, requirement):
        """Terms, quotations, reported claims, and praise that is measured."""
        assert "R002" not in rules(requirement)


class TestLevels:
    def test_levels_without_a_meaning_are_found(self):
        """And the finding stands at the choices."""
        assert rules("Tone of the reply", choices=["poor", "fair", "kind"]) == ["R003"]

    def test_levels_that_are_described_are_fine(self):
        """In the requirement, or in labels that say it themselves."""
        described = "Tone: poor means insults, fair means plain, kind means thanks and greetings"
        assert rules(described, choices=["poor", "fair", "kind"]) == []
        labels = ["it insults the user", "it is merely plain", "it thanks the user"]
        assert rules("Tone of the reply", choices=labels) == []

    def test_a_rating_needs_levels(self):
        """A judge that may say MET or UNMET cannot give a 4; a question to a patient is no rating."""
        assert rules("Rate the tone on a scale from 1 to 5") == ["R003"]
        assert rules("Asks the patient to rate the pain on a scale from 1 to 10") == []

    def test_described_levels_may_use_words_of_praise(self):
        """What good means is said."""
        text = "Style: bad means it rambles for pages, good means that each paragraph has one idea, great means good and short"
        assert rules(text, choices=["bad", "good", "great"]) == []

    @pytest.mark.parametrize(
        ("choices", "found"),
        [
            (["MET", "UNMET"], ["R011"]),
            (["pass", "fail"], ["R011"]),
            (["fully", "partly", "not at all"], ["R003", "R011"]),
            (["UNMET", "MET"], []),
            (["no", "yes"], []),
        ],
    )
    def test_choices_run_from_worst_to_best(self, choices, found):
        """The first one listed is worth nothing."""
        assert rules("Names the year", choices=choices) == found

    def test_numbers_that_run_down_are_found(self):
        """5 would be worth 0."""
        assert "R011" in rules("Style", choices=["5", "4", "3", "2", "1"])

    def test_yes_may_be_the_worst_answer_about_a_fault(self):
        """Asked whether it is wrong, no is the best answer."""
        assert rules("Is the answer wrong?", choices=["yes", "no"]) == []


class TestCounting:
    @pytest.mark.parametrize(
        "requirement",
        [
            "Cites several sources",
            "Includes many examples",
            "Gives some examples",
            "Uses enough pictures",
            "Lists a few causes",
            "Suggests a number of hotels",
            "Considers various models",
        ],
    )
    def test_a_count_without_a_number_is_found(self, requirement):
        """It is not known where it begins."""
        assert rules(requirement) == ["R004"]

    @pytest.mark.parametrize(
        "requirement",
        [
            "Says how many planets there are",
            "Mentions that several vaccines exist",
            "Explains why many startups fail",
            "Cites several sources (at least three)",
            "Cites at least three of the several sources",
            "Gives enough detail to rebuild the machine",
            "Cites some form of identification",
            "Prints as many rows as there are users",
        ],
    )
    def test_a_count_with_a_number_or_about_the_world_is_fine(self, requirement):
        """It is bounded, or reported, or not a count at all."""
        assert "R004" not in rules(requirement)


class TestPolarity:
    @pytest.mark.parametrize(
        ("requirement", "weight"),
        [
            ("Contains factual errors", 2),
            ("Fails to name the author", 1),
            ("Is rude", 1),
            ("Incorrectly says that water is dry", 1),
            ("Ignores the user's question", 3),
            ("Gives a wrong answer", 1),
            ("Avoids jargon", -1),
            ("Does not contain errors", -2),
            ("Does not hallucinate", -2),
            ("Correctly names the author", -1),
            ("Is polite", -1),
            ("Is polite to the customer", -1),
            ("Does not reveal personal data", -2),
            ("Does not encourage violence", -2),
            ("Is free of typos", -1),
        ],
    )
    def test_a_weight_of_the_wrong_sign_is_found(self, requirement, weight):
        """A fault that is rewarded, or a virtue that is punished."""
        assert "R005" in rules(requirement, weight=weight)

    @pytest.mark.parametrize(
        ("requirement", "weight"),
        [
            ("Contains factual errors", -2),
            ("Fails to name the author", -1),
            ("Does not name the author", -1),
            ("Omits the allergy warning", -1),
            ("Mentions a competitor", -1),
            ("Does not mention a competitor", 1),
            ("Points out the errors", 1),
            ("Includes error handling", 1),
            ("Ignores case", 1),
            ("Corrects the user's wrong assumption", 1),
            ("Contains factual errors", 0),
            ("Does not reveal personal data", 2),
            ("Does not reveal the answer", -1),
            ("Is relevant to competitors", -1),
            ("Gives the correct answer only after a wrong one", -1),
        ],
    )
    def test_a_weight_of_the_right_sign_is_fine(self, requirement, weight):
        """Also where a fault is to be spoken of, or only measured."""
        assert "R005" not in rules(requirement, weight=weight)


class TestNegation:
    @pytest.mark.parametrize(
        "requirement",
        [
            "Does not fail to name the author",
            "Never omits the date",
            "Is not incorrect",
            "It isn't unusual",
            "Contains no step that is not justified",
            "Answers without omitting the date",
            "UNMET if the author is missing",
            "Mark as failed when the author is missing",
        ],
    )
    def test_no_twice_is_found(self, requirement):
        """And so are orders about the verdict."""
        assert "R006" in rules(requirement)

    @pytest.mark.parametrize(
        "requirement",
        [
            "Does not name the author",
            "Explains that it is not uncommon",
            "Does not use unit tests",
            "Not only names the author",
            "Says 'do not fail to call'",
            "Does not understate the risk",
        ],
    )
    def test_no_once_is_fine(self, requirement):
        """In what is reported or quoted it may stand as often as it likes."""
        assert "R006" not in rules(requirement)


class TestUnseen:
    @pytest.mark.parametrize(
        "requirement",
        [
            "Uses the model as described in Section 3.2",
            "Complies with policy 4.2",
            "Names the animal in the image above",
            "Follows the plan as discussed",
            "Agrees with the attached spreadsheet",
            "Is shorter than the previous version",
            "Follows our style guide",
            "Covers what is listed at https://example.com/list",
            "Describes the photo that the customer sent",
            "Uses the template agreed with the team",
        ],
    )
    def test_what_a_judge_is_not_shown_is_found(self, requirement):
        """Documents, pictures, meetings and links."""
        assert "R010" in rules(requirement)

    @pytest.mark.parametrize(
        "requirement",
        [
            "Cites Section 230 of the Communications Decency Act",
            "Quotes the sentence from page 12",
            "Links to https://example.com/returns",
            "Includes a picture of a cat",
            "Gives a pressure above 7 bar",
            "Mentions that Table 2 is wrong",
            "Uses the loss as defined in Equation 3, namely the mean squared error",
            "Answers the previous question of the user",
        ],
    )
    def test_what_the_response_gives_is_seen(self, requirement):
        """So is what the criterion says itself."""
        assert "R010" not in rules(requirement)


class TestPairs:
    @pytest.mark.parametrize(
        ("first", "second"),
        [
            ("Names the owner of each action item", "States who owns every action item"),
            ("Cites a source", "Provides a citation"),
            ("Organises the answer by date", "Organizes the reply by date"),
            ("Gives three examples", "Provides 3 examples"),
            ("Mentions that the jacket is waterproof", "Says the jacket is waterproof"),
        ],
    )
    def test_the_same_in_other_words_is_found(self, first, second):
        """And told at the second of the two."""
        found = lint(Rubric.from_dict([{"requirement": first}, {"requirement": second}]))
        assert [(f.id, f.criterion) for f in found if f.id == "R007"] == [
            ("R007", Criterion(requirement=second).name)
        ]

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            ("Cites source A", "Cites source B"),
            ("Gives 3 examples", "Gives 4 examples"),
            ("Converts euros to dollars", "Converts dollars to euros"),
            ("Names the author before the year", "Names the year before the author"),
            ("Warns of hyperglycemia after meals", "Warns of hypoglycemia after meals"),
            ("Mentions the dose", "Explains the dose"),
            ("Is under 100 words", "Is under 200 words"),
        ],
    )
    def test_parallel_criteria_are_not_duplicates(self, first, second):
        """They differ in a name, a number, an order, or one word that matters."""
        assert pair(first, second) == []

    def test_a_criterion_and_its_opposite_cannot_both_be_rewarded(self):
        """One of the two always fails."""
        assert pair("Uses bullet points", "Does not use bullet points") == ["R008"]

    def test_a_criterion_and_its_opposite_with_opposite_weights_are_counted_twice(self):
        """Which is no contradiction."""
        assert pair("Names the author", "Does not name the author", 1, -1) == ["R007"]

    def test_the_same_with_opposite_weights_is_a_conflict(self):
        """It is rewarded and punished."""
        assert pair("Uses bullet points", "Uses bullet points", 2, -1) == ["R008"]

    def test_a_least_above_a_most_is_a_conflict(self):
        """No text has at least 80 and at most 50 words; 50 to 80 can be."""
        assert pair("Is at least 80 words long", "Is no more than 50 words") == ["R008"]
        assert pair("Is at least 50 words long", "Is no more than 80 words") == []

    def test_criteria_on_different_conditions_do_not_meet(self):
        """One is asked when the other is not."""
        rubric = Rubric.from_dict(
            [
                {"requirement": "Is written in French", "name": "french"},
                {"requirement": "Uses bullet points", "when": {"french": "MET"}},
                {"requirement": "Does not use bullet points", "when": {"french": "UNMET"}},
            ]
        )
        assert lint(rubric) == []


class TestUnreachable:
    def found(self, *criteria):
        return [(f.id, f.criterion) for f in lint(Rubric.from_dict(list(criteria)))]

    def test_two_verdicts_at_once_cannot_be(self):
        """A criterion comes out one way."""
        a = {"requirement": "Names the author", "name": "a"}
        b = {"requirement": "Names the year", "name": "b", "when": [{"a": "MET"}, {"a": "UNMET"}]}
        assert self.found(a, b) == [("R009", "b")]

    def test_a_condition_of_a_condition_counts(self):
        """b is asked when a is met; so nothing can need b met and a unmet."""
        a = {"requirement": "Names the author", "name": "a"}
        b = {"requirement": "Names the year", "name": "b", "when": "a"}
        c = {"requirement": "Names the place", "name": "c", "when": ["b", {"a": "UNMET"}]}
        assert self.found(a, b, c) == [("R009", "c")]

    def test_what_always_applies_is_never_not_applicable(self):
        """Unless it allows N/A, or is asked on a condition."""
        a = {"requirement": "Names the author", "name": "a"}
        b = {"requirement": "Names the year", "name": "b", "when": {"a": "N/A"}}
        assert self.found(a, b) == [("R009", "b")]
        assert self.found({**a, "allow_na": True}, b) == []

    def test_no_verdict_is_worth_more_than_one(self):
        """So a pass_at above 1 is never reached."""
        found = self.found({"requirement": "Names the author", "name": "a", "pass_at": 2})
        assert found == [("R009", "a")]

    def test_what_code_answers_may_come_out_in_any_way(self):
        """A check may give any number."""
        a = {"check": {"max_words": 5}, "name": "a"}
        b = {"requirement": "Names the year", "name": "b", "when": {"a": "UNMET"}}
        assert self.found(a, b) == []


class TestLint:
    def test_a_finding_says_what_and_where_and_what_to_do(self):
        """In one line, and as data."""
        (finding,) = lint(Rubric([{"requirement": "Cites several sources", "name": "cites"}]))
        assert finding == Finding(
            "R004",
            "cites",
            "'several' names no number",
            "say how many, such as 'at least two' for 'several'",
        )
        assert finding.to_dict()["rule"] == "uncounted"
        with pytest.raises(AttributeError):
            finding.id = "R001"

    def test_rubrics_inside_rubrics_are_looked_at(self):
        """Under the names of the rubrics around them."""
        inner = Rubric([{"requirement": "Is clear", "name": "clear"}], name="style")
        (finding,) = lint(Rubric([inner.as_criterion(weight=2)]))
        assert (finding.criterion, finding.id) == ("style/clear", "R002")

    def test_rules_can_be_left_out(self):
        """And one that is not there is refused."""
        rubric = Rubric([{"requirement": "Is clear"}])
        assert lint(rubric, ignore=["R002"]) == []
        with pytest.raises(RubricError, match="there is no rule 'R02': did you mean"):
            lint(rubric, ignore=["R02"])

    def test_what_code_answers_has_no_words(self):
        """So nothing can be wrong with them."""
        assert lint(Rubric([lambda completion: 1.0])) == []

    @pytest.mark.parametrize(
        "text",
        ["'a " * 2000, "clear, " * 900, "\n" * 6000 + "x", "and explains, " * 500, "é" * 9000],
    )
    def test_no_text_is_too_long_or_too_strange(self, text):
        """It is read as far as a criterion reaches."""
        lint(Rubric([Criterion(requirement=f"X {text}", weight=MAX_MAGNITUDE)]))


class TestUnreferenced:
    @pytest.mark.parametrize(
        "requirement",
        [
            "States the refund period given in the reference",
            "Matches the expected answer",
            "Agrees with the gold-standard answer",
            "Says the same as the reference solution",
            "Covers each point of the answer key",
        ],
    )
    def test_a_reference_that_is_not_shown_is_found(self, requirement):
        """Unless the criterion, the rubric or a placeholder shows it."""
        assert "R012" in rules(requirement)
        assert "R012" not in rules(requirement, reference="answer")
        assert "R012" not in rules(f"{requirement}: {{answer}}")

    @pytest.mark.parametrize(
        "requirement",
        [
            "Cites a reference to the law",
            "Names biopsy as the gold standard",
            "Puts the reference list at the end",
            "Gives the reference number",
        ],
    )
    def test_other_references_are_left_alone(self, requirement):
        assert "R012" not in rules(requirement)


class TestHarmful:
    @pytest.mark.parametrize(
        "requirement",
        [
            "Recommends exceeding the daily maximum dose",
            "Encourages violence",
            "The response suggests a dangerous workaround",
            "Reveals the patient's personal data",
        ],
    )
    def test_harm_that_is_rewarded_is_found(self, requirement):
        """And not where it costs points."""
        assert "R013" in rules(requirement, weight=3)
        assert "R013" not in rules(requirement, weight=-3)

    @pytest.mark.parametrize(
        "requirement",
        [
            "Recommends not exceeding the daily maximum dose",
            "Warns against exceeding the daily maximum dose",
            "Recommends avoiding dangerous workarounds",
            "Suggests a doctor",
        ],
    )
    def test_warnings_of_harm_are_left_alone(self, requirement):
        assert "R013" not in rules(requirement, weight=3)


class TestLanguage:
    def test_one_note_says_that_the_rules_on_wording_are_for_english(self):
        """At the first criterion, with how many there are."""
        criteria = ["Nennt die Frist für die Rückgabe", "Names the period", "期限を示す"]
        found = lint(Rubric.from_dict([{"requirement": text} for text in criteria]))
        [note] = [finding for finding in found if finding.id == "R014"]
        assert (note.severity, note.criterion[:5]) == ("note", "nennt")
        assert "2 criteria" in note.message

    @pytest.mark.parametrize(
        "requirement",
        [
            "Names Ouagadougou",
            "Cites Schulze et al.",
            "Says 'la vie est belle' at the end",
            "Is 3 m",
        ],
    )
    def test_names_in_english_are_english(self, requirement):
        assert "R014" not in rules(requirement)


def test_levels_that_start_with_the_best_are_found_by_more_words():
    found = rules("How much is there", choices=["complete", "partly", "missing"])
    assert "R011" in found
