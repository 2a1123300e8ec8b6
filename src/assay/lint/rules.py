"""Find faults in a single criterion: R001 to R006, and R010 to R013.

A rule is a function that takes a criterion and the words of its requirement, and yields what is
wrong. The patterns that it looks for are in `patterns.toml`, under the names given to `pattern`.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from assay.criterion import BINARY_CHOICES, Criterion
from assay.lint.findings import Hit
from assay.lint.lexicon import (
    BLANK,
    RequirementText,
    compile_pattern,
    pattern,
    read_requirement,
    word_lists,
    words,
)
from assay.placeholders import list_paths


def find_hits(criterion: Criterion) -> Iterator[Hit]:
    """Yield what is wrong with a criterion by itself. One that code answers has no wording to check."""
    if criterion.requirement is not None:
        text = read_requirement(criterion.requirement)
        for rule in _RULES:
            yield from rule(criterion, text)


# R001: two claims in one, so that a response that does half of it has no right verdict.

# Names and numbers: capital letters cannot be seen in patterns, which ignore case.
_NAMES = re.compile(rf"[{BLANK}\d=+]|\band\s+[A-Z]")
# Words that make a single claim together, such as "pros/cons".
_SINGLE_CLAIM_PAIRS: Final = frozenset(frozenset(pair.split("/")) for pair in words("paired"))


def find_two_claims(criterion: Criterion, text: RequirementText) -> Iterator[Hit]:
    """Find two claims of which a response can satisfy one without the other."""
    wording = text.own_words
    if has_explained_levels(criterion, text):
        # The description of a level may need two claims.
        wording = wording.split(":")[0]
    for find in (_find_second_act, _find_two_qualities, _find_second_sentence, _find_two_objects):
        message_and_fix = find(wording)
        if message_and_fix is not None:
            message, fix = message_and_fix
            yield Hit("R001", message, fix)
            return


# Each of these functions returns the message and the fix for a second claim, or None.


def _find_second_act(wording: str) -> tuple[str, str] | None:
    """Find a second verb: "names the drug and explains its risks"."""
    second_act = pattern("second_act")
    if pattern("takes_bare").search(wording):
        # After "should" or in an order, verbs have no ending.
        second_act = pattern("second_bare_act")
    for match in second_act.finditer(wording):
        if _is_second_claim(wording, match):
            clause = wording[match.start("verb") :].split(BLANK)[0].split(",")[0]
            first_words = " ".join(clause.split()[:4])
            return (
                f"it asks two things, the second at '{first_words}'",
                f"make '{first_words} …' a criterion of its own",
            )
    return None


def _is_second_claim(wording: str, match: re.Match[str]) -> bool:
    """Return whether the matched verb makes a claim, in addition to one that stands before it."""
    before = wording[: match.start()]
    after = wording[match.end() :]
    verb = match["verb"].lower()
    is_first_claim = len(before.split()) < 2
    if is_first_claim or pattern("condition").search(before) or pattern("or").search(before):
        return False
    # After a comma alone, the verb is only a further claim in a list that goes on with "and". Else
    # the comma may end an aside.
    is_in_list = " " not in verb and re.search(r"\band\b", after) is not None
    if match["joint"] == "," and not is_in_list:
        return False
    # "describes and explains the cause": two verbs with one object.
    if pattern("shared_object").search(before):
        return False
    # "clearly and correctly states": two adverbs with one verb.
    if pattern("shared_verb").search(before[-40:] + match[0]):
        return False
    # "a drug that is new and causes harm": the verb belongs to the thing, not to the response.
    is_about_thing = verb in words("worldly.s") and pattern("relative").search(before) is not None
    return not is_about_thing


def _find_two_qualities(wording: str) -> tuple[str, str] | None:
    """Find two adjectives or adverbs: "polite and correct"."""
    match = pattern("two_qualities").search(wording) or pattern("two_ways").search(wording)
    if match is None:
        return None
    words_of_pair = frozenset((match["one"].lower(), match["two"].lower()))
    if words_of_pair in _SINGLE_CLAIM_PAIRS:
        return None
    return (
        f"'{match['one']}' and '{match['two']}' are two qualities",
        "give each quality a criterion of its own",
    )


def _find_second_sentence(wording: str) -> tuple[str, str] | None:
    """Find a claim after "while", or in a second sentence."""
    if pattern("about_response").match(wording):
        while_clause = pattern("while").search(wording)
        if while_clause is not None:
            verb = while_clause["verb"].lower()
            return (
                f"what is asked 'while {verb}' is a second thing",
                f"make '{verb} …' a criterion of its own",
            )
    match = pattern("next_sentence").search(wording)
    if match is None:
        return None
    first_words = " ".join(wording[match.start() + 1 :].split()[:4])
    return (
        f"the sentence '{first_words} …' asks a second thing",
        "make it a criterion of its own",
    )


def _find_two_objects(wording: str) -> tuple[str, str] | None:
    """Find several things that a response should mention, unless they belong together."""
    things: list[str] = []
    listing = pattern("list").search(wording)
    if listing is not None and not _belong_together(listing[0], listing["things"]):
        things = re.split(r",\s+(?:and\s+)?|\s+and\s+|\s+as\s+well\s+as\s+", listing["things"])
        first_word = things[0].split()[-1].lower()
        last_word = things[-1].split()[-1].lower()
        if frozenset((first_word, last_word)) in _SINGLE_CLAIM_PAIRS:
            things = []
    if not things:
        both = pattern("both").search(wording)
        if both is not None and not _belong_together(wording[: both.end()], both[0]):
            things = [both["one"], both["two"]]
    if not things:
        return None
    shown = " and ".join(f"'{thing}'" for thing in things)
    return f"it asks for {shown}", "give each of them a criterion of its own"


def _belong_together(text: str, things: str) -> bool:
    """Return whether a relation connects the things, or they are names and numbers of one answer."""
    return pattern("together").search(text) is not None or _NAMES.search(things) is not None


# R002: praise and blame with nothing to measure it by.

# A criterion of at most so many words is about the response itself, hardly about another subject.
SHORT: Final = 16
_FOR_AN_AUDIENCE: Final = {word.replace("_", " ") for word in words("for_an_audience")}


def find_vague_words(criterion: Criterion, text: RequirementText) -> Iterator[Hit]:
    """Find praise or blame on which two readers would not agree."""
    # A requirement may explain its words: after a colon, in brackets, or with "that is".
    is_explained = pattern("explained").search(text.without_quotes) is not None
    if is_explained or text.is_bounded or has_explained_levels(criterion, text):
        return
    vague_words = list(dict.fromkeys(_list_vague_words(text.own_words)))
    if vague_words:
        listed = ", ".join(f"'{word}'" for word in vague_words[:4])
        verb = "mean" if len(vague_words) > 1 else "means"
        yield Hit(
            "R002",
            f"{listed} {verb} something else to every reader",
            "say what must be there, or give a number, so that two readers agree",
        )


def _list_vague_words(wording: str) -> Iterator[str]:
    """Yield the words of praise or blame that nothing around them makes definite."""
    noun = pattern("vague_noun").match(wording)
    if noun is not None:
        yield noun[1].lower()
    is_short = len(wording.split()) <= SHORT
    for match in pattern("vague").finditer(wording):
        word = " ".join(match[0].lower().split())
        before = wording[: match.start()]
        after = wording[match.end() :]
        if word in words("often_evaluative"):
            # It praises only if it is about the response, as in "the answer is complete".
            is_about_response = is_short and pattern("of_response").search(before) is not None
            if not is_about_response:
                continue
        # With a capital letter inside a sentence, a word is part of a name.
        is_inside_sentence = re.search(r"\w[^.!?]*$", before) is not None
        is_name = match[0][0].isupper() and is_inside_sentence
        if not is_name and not _is_definite(word, before, after):
            yield word


def _is_definite(word: str, before: str, after: str) -> bool:
    """Return whether the text around a word gives it a meaning that readers agree on."""
    if pattern("no_praise").search(before) or _is_part_of_term(word, after):
        return True
    if word == "well":  # "as well as"
        return pattern("not_well").match(after) is not None
    if word in words("evaluative_adverbs"):
        # "clearly states", or "clearly, by listing the steps"
        says_plainly = pattern("plainly").match(after) is not None
        return says_plainly or pattern("by_means").search(after) is not None
    # "suitable for children"
    return word in _FOR_AN_AUDIENCE and pattern("audience").match(after) is not None


def _is_part_of_term(word: str, after: str) -> bool:
    """Return whether a word is part of a term (`clear liquid`), or a verb (`clear the cache`)."""
    following = re.match(r"\s+([\w-]+)(?:\s+([\w-]+))?", after)
    if following is None:
        return False
    next_words = [next_word.lower() for next_word in following.groups() if next_word]
    may_be_verb = word in ("clear", "sound", "clean")
    if may_be_verb and next_words[0] in ("the", "a", "an", "its", "all", "out"):
        return True
    # The words with which this one makes a term.
    terms = word_lists()["settled"].get(word, "").split()
    for next_word in next_words:
        if next_word in terms or next_word.removesuffix("s") in terms:
            return True
    return False


# R003 and R011: whether every choice is explained, and whether they run from worst to best.


def has_explained_levels(criterion: Criterion, text: RequirementText) -> bool:
    """Return whether it offers more than two choices, and explains each of them."""
    return len(criterion.choices) > 2 and not _list_unexplained(criterion.choices, text.full)


def find_unexplained_levels(criterion: Criterion, text: RequirementText) -> Iterator[Hit]:
    """Find a rating without levels, and levels without a description."""
    unexplained = _list_unexplained(criterion.choices, text.full)
    asks_for_rating = pattern("rating").search(text.without_quotes) is not None
    if criterion.choices == BINARY_CHOICES and asks_for_rating:
        yield Hit(
            "R003",
            "it asks for a rating, and the judge may only say MET or UNMET",
            "list the levels under `choices`, and say in the requirement what each one means",
        )
    elif len(criterion.choices) > 2 and unexplained:
        shown = ", ".join(f"'{label}'" for label in unexplained[:5])
        if len(unexplained) > 5:
            shown = f"{shown} and {len(unexplained) - 5} more"
        yield Hit(
            "R003",
            f"nothing says when a response deserves {shown}",
            "describe each level, in the requirement or in the label itself",
            field="choices",
        )


def _list_unexplained(choices: Sequence[str], requirement: str) -> list[str]:
    """Return the short labels that the requirement does not mention with a description.

    A label of three words or more explains itself.
    """
    unexplained: list[str] = []
    for label in choices:
        if len(label.split()) >= 3:
            continue
        # The label, and at least two words after it.
        described = rf"(?<!\w){re.escape(label.strip())}(?!\w)\W*\w+\W+\w+"
        if not re.search(described, requirement, re.IGNORECASE):
            unexplained.append(label)
    return unexplained


def find_reversed_choices(criterion: Criterion, text: RequirementText) -> Iterator[Hit]:
    """Find choices that run from best to worst, so that the best response is worth nothing."""
    # In lists of words, `_` stands for a space.
    choices = ["_".join(choice.casefold().split()) for choice in criterion.choices]
    if all(re.fullmatch(r"\d{1,4}", choice) for choice in choices):
        numbers = [int(choice) for choice in choices]
        is_best_first = numbers == sorted(numbers, reverse=True)
    else:
        is_best_first = choices[0] in words("best") and choices[-1] in words("worst")
    if not is_best_first:
        return
    is_verdict = choices[0] in ("met", "pass", "passed")
    if not is_verdict and _find_fault(text):
        return  # for a question about a fault, `yes` is the worst answer, so it comes first
    message = (
        f"the choices run from '{criterion.choices[0]}' to '{criterion.choices[-1]}', "
        "and the first one listed is worth 0"
    )
    severity = None
    if choices[0] in ("yes", "true"):
        severity = "warning"  # it is not certain which answer to a question is better
    yield Hit("R011", message, "list the choices from worst to best", "choices", severity)


# R004: several, many, enough.


def find_uncounted(criterion: Criterion, text: RequirementText) -> Iterator[Hit]:
    """Find an amount such as `several` without a number."""
    if text.is_bounded or has_explained_levels(criterion, text):
        return
    for name in ("counted_anywhere", "counted_if_given"):
        for match in pattern(name).finditer(text.own_words):
            amount = " ".join(match["amount"].lower().split())
            after = text.own_words[match.end() :]
            has_number = pattern("count_said").match(after) is not None
            # "enough to prevent fire" is not a matter of counting.
            is_for_a_purpose = amount == "enough" and pattern("purpose").match(after) is not None
            if not has_number and not is_for_a_purpose:
                yield Hit(
                    "R004",
                    f"'{amount}' names no number",
                    f"say how many, such as 'at least two' for '{amount}'",
                )
                return


# R005: a fault that is rewarded, and a virtue that is punished.


def find_wrong_sign(criterion: Criterion, text: RequirementText) -> Iterator[Hit]:
    """Find a fault with a positive weight, or a virtue with a negative one."""
    weight = criterion.weight
    if criterion.choices != BINARY_CHOICES or weight == 0:
        return
    if weight > 0:
        fault = _find_fault(text)
        if fault:
            yield Hit(
                "R005",
                f"'{fault}' describes a fault, and the weight of {weight:+g} rewards it",
                f"give it the weight {-weight:g}, or describe what a good response does",
            )
    else:
        virtue = _find_virtue(text)
        if virtue:
            yield Hit(
                "R005",
                f"'{virtue}' describes a virtue, and the weight of {weight:g} punishes it",
                f"give it the weight {-weight:+g}, or describe the fault itself",
            )


def _find_fault(text: RequirementText) -> str:
    """Return the words with which a requirement describes a fault; empty if it does not."""
    wording = text.own_words
    if pattern("negated").match(wording) or pattern("avoids").match(wording):
        return ""  # the absence of a fault
    match = pattern("describes_fault").match(wording)
    return "" if match is None else " ".join(match["fault"].split())


def _find_virtue(text: RequirementText) -> str:
    """Return the words with which a requirement describes a virtue; empty if it does not.

    The absence of a fault is a virtue, too.
    """
    wording = text.own_words
    avoids = pattern("avoids").match(wording)
    negated = pattern("negated").match(wording)
    if avoids is None and negated is not None:
        rest = negated["rest"]
        names_fault = pattern("names_fault").match(rest) or pattern("harm").match(rest)
        return "not …" if names_fault else ""
    match = avoids or pattern("describes_virtue").match(wording)
    return "" if match is None else " ".join(match["virtue"].split())


# R006: sentences that say no twice.


def find_negations(_: Criterion, text: RequirementText) -> Iterator[Hit]:
    """Find two negations, or words that tell the judge which verdict to give."""
    double_negation = pattern("double_negation").search(text.own_words)
    if double_negation is not None:
        shown = " ".join(double_negation[0].split())
        yield Hit(
            "R006",
            f"'{shown}' says no twice",
            "say what the response does, without the two negations",
        )
        return
    verdict = pattern("verdict").search(text.without_quotes)
    if verdict is not None:
        yield Hit(
            "R006",
            f"'{verdict[0]}' tells the judge which verdict to give, and may turn the question round",
            "describe only what is to be there; MET then means that it is",
        )


# R010: a judge has the query, perhaps a reference, the response, and the criterion, and nothing else.

_UNSEEN = tuple(compile_pattern(text) for text in word_lists()["unseen"])
_ADDRESS = re.compile(r"(?:https?://|www\.)[^\s)\]}>,;]+", re.IGNORECASE)


def find_unseen(_: Criterion, text: RequirementText) -> Iterator[Hit]:
    """Find a reference to something that a judge does not see."""
    for reference in _list_references(text):
        yield Hit(
            "R010",
            f"a judge is not shown '{reference}'",
            "put what it says into the requirement, or into the query",
        )
        return  # the first one is enough


def _list_references(text: RequirementText) -> Iterator[str]:
    """Yield the things that a judge would have to look up, such as a document or a link."""
    wording = text.own_words
    for unseen_thing in _UNSEEN:
        for match in unseen_thing.finditer(wording):
            is_quoted_by_response = pattern("quotes").search(wording[: match.start()]) is not None
            is_repeated_here = pattern("says_itself").search(wording, match.end()) is not None
            if not is_quoted_by_response and not is_repeated_here:
                yield " ".join(match["what"].split()).rstrip(".")
    for match in _ADDRESS.finditer(text.full):
        before = text.full[: match.start()]
        must_be_opened = pattern("to_open").search(before) is not None
        # A link that the response is to give need not be opened.
        must_be_given = pattern("to_give").search(before) is not None
        is_place = pattern("at").search(before) is not None and not must_be_given
        if must_be_opened or is_place:
            yield match[0].rstrip(".")


# R012: an answer that is known to be right has to be shown to the judge.


def find_missing_reference(criterion: Criterion, text: RequirementText) -> Iterator[Hit]:
    """Find a mention of a reference answer if the judge is shown none."""
    match = pattern("reference").search(text.without_quotes)
    # A placeholder may hold it, as in `Agrees with the reference answer {answer}`.
    if match is None or criterion.reference or list_paths(criterion.requirement):
        return
    reference = " ".join(match["what"].split())
    yield Hit(
        "R012",
        f"'{reference}' is not shown to the judge",
        "name its column, as in `reference: answer`",
    )


# R013: advice that does harm, and is rewarded.


def find_rewarded_harm(criterion: Criterion, text: RequirementText) -> Iterator[Hit]:
    """Find harmful advice with a positive weight."""
    if criterion.weight <= 0 or criterion.choices != BINARY_CHOICES:
        return
    # Not only the rubric's own words, which leave out what a response recommends.
    match = pattern("harmful").match(text.without_quotes)
    if match is not None:
        harm = " ".join(match["harm"].split())
        yield Hit(
            "R013",
            f"'{harm}' seems to describe harm, and the weight of {criterion.weight:+g} rewards it",
            f"give it the weight {-criterion.weight:g}, or say what a good response does",
            field="weight",
        )


_RULES: tuple[Callable[[Criterion, RequirementText], Iterator[Hit]], ...] = (
    find_two_claims,
    find_vague_words,
    find_unexplained_levels,
    find_uncounted,
    find_wrong_sign,
    find_negations,
    find_unseen,
    find_reversed_choices,
    find_missing_reference,
    find_rewarded_harm,
)
