"""Find what is wrong with one criterion by itself: R001 to R006, and R010 to R013.

A rule takes a criterion and the words of its requirement, and yields what it finds. What it looks for are the patterns
of `patterns.toml`.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from assay.criterion import BINARY_CHOICES, Criterion
from assay.lint.findings import Hit
from assay.lint.lexicon import BLANK, RequirementText, compiled, pattern, text_of, word_lists, words
from assay.placeholders import list_paths


def hits_of_criterion(criterion: Criterion) -> Iterator[Hit]:
    if criterion.requirement is not None:
        text = text_of(criterion.requirement)
        for rule in _RULES:
            yield from rule(criterion, text)


# R001: two claims in one, so that a response that does half of it has no right verdict.

_NAMES = re.compile(rf"[{BLANK}\d=+]|\band\s+[A-Z]")
_PAIRED: Final = frozenset(frozenset(pair.split("/")) for pair in words("paired"))


def compound(criterion: Criterion, text: RequirementText) -> Iterator[Hit]:
    """Find two things of which a response can do one without the other."""
    own = text.own
    if explains_levels(criterion, text):
        # The description of a level may need two claims.
        own = own.split(":")[0]
    for find_second_claim in (_two_acts, _two_qualities, _two_sentences, _two_objects):
        result = find_second_claim(own)
        if result is not None:
            message, fix = result
            yield Hit("R001", message, fix)
            return


def _two_acts(own: str) -> tuple[str, str] | None:
    second_act = pattern("second_act")
    if pattern("takes_bare").search(own):
        second_act = pattern("second_bare_act")
    for match in second_act.finditer(own):
        if _is_second_claim(own, match):
            rest = own[match.start("verb") :].split(BLANK)[0].split(",")[0]
            shown = " ".join(rest.split()[:4])
            return (
                f"it asks two things, the second at '{shown}'",
                f"make '{shown} …' a criterion of its own",
            )
    return None


def _is_second_claim(own: str, found: re.Match[str]) -> bool:
    """Whether a verb after a joint claims something, and what stands before the joint does too."""
    before, after, verb = own[: found.start()], own[found.end() :], found["verb"].lower()
    if (
        len(before.split()) < 2
        or pattern("condition").search(before)
        or pattern("or").search(before)
    ):
        return False
    # A comma may stand between acts, or around an aside.
    is_in_a_list = " " not in verb and re.search(r"\band\b", after) is not None
    if found["joint"] == "," and not is_in_a_list:
        return False
    if pattern("shared_object").search(before) or pattern("shared_verb").search(
        before[-40:] + found[0]
    ):
        return False
    return not (verb in words("worldly.s") and pattern("relative").search(before))


def _two_qualities(own: str) -> tuple[str, str] | None:
    found = pattern("two_qualities").search(own) or pattern("two_ways").search(own)
    if found is None or frozenset((found["one"].lower(), found["two"].lower())) in _PAIRED:
        return None
    return (
        f"'{found['one']}' and '{found['two']}' are two qualities",
        "give each quality a criterion of its own",
    )


def _two_sentences(own: str) -> tuple[str, str] | None:
    beside = pattern("while").search(own) if pattern("about_response").match(own) else None
    if beside is not None:
        verb = beside["verb"].lower()
        return (
            f"what is asked 'while {verb}' is a second thing",
            f"make '{verb} …' a criterion of its own",
        )
    found = pattern("next_sentence").search(own)
    if found is None:
        return None
    shown = " ".join(own[found.start() + 1 :].split()[:4])
    return f"the sentence '{shown} …' asks a second thing", "make it a criterion of its own"


def _two_objects(own: str) -> tuple[str, str] | None:
    """Find several things that a response should mention, unless they belong together."""
    things: list[str] = []
    listing = pattern("list").search(own)
    if listing is not None and not _belong_together(listing[0], listing["things"]):
        things = re.split(r",\s+(?:and\s+)?|\s+and\s+|\s+as\s+well\s+as\s+", listing["things"])
        first_word = things[0].split()[-1].lower()
        last_word = things[-1].split()[-1].lower()
        if frozenset((first_word, last_word)) in _PAIRED:
            things = []
    if not things:
        both = pattern("both").search(own)
        if both is not None and not _belong_together(own[: both.end()], both[0]):
            things = [both["one"], both["two"]]
    if not things:
        return None
    shown = " and ".join(f"'{thing}'" for thing in things)
    return f"it asks for {shown}", "give each of them a criterion of its own"


def _belong_together(text: str, things: str) -> bool:
    """Return whether a relation connects the things, or they are names and numbers of one answer."""
    return pattern("together").search(text) is not None or _NAMES.search(things) is not None


# R002: praise and blame with nothing to measure it by.

SHORT: Final = (
    16  # words up to which a criterion is about the response, and hardly about a subject of its own
)
_FOR_AN_AUDIENCE: Final = {word.replace("_", " ") for word in words("for_an_audience")}


def vague(criterion: Criterion, text: RequirementText) -> Iterator[Hit]:
    """Praise or blame that two readers would settle differently."""
    # It may go on to say what it means: after a colon, in brackets, with `that is`.
    if (
        pattern("explained").search(text.plain)
        or text.is_bounded
        or explains_levels(criterion, text)
    ):
        return
    found = list(dict.fromkeys(_vague_words(text.own)))
    if found:
        listed = ", ".join(f"'{word}'" for word in found[:4])
        message = f"{listed} mean{'' if len(found) > 1 else 's'} something else to every reader"
        yield Hit(
            "R002", message, "say what must be there, or give a number, so that two readers agree"
        )


def _vague_words(own: str) -> Iterator[str]:
    noun = pattern("vague_noun").match(own)
    if noun is not None:
        yield noun[1].lower()
    short = len(own.split()) <= SHORT
    for found in pattern("vague").finditer(own):
        word = " ".join(found[0].lower().split())
        before, after = own[: found.start()], own[found.end() :]
        if word in words("often_evaluative") and not (
            short and pattern("of_response").search(before)
        ):
            continue
        # Written with a capital, though it opens no sentence, it is part of a name.
        is_name = found[0][0].isupper() and re.search(r"\w[^.!?]*$", before) is not None
        if not (is_name or _is_definite(word, before, after)):
            yield word


def _is_definite(word: str, before: str, after: str) -> bool:
    """Whether what stands around it gives it a meaning that readers share."""
    if pattern("no_praise").search(before) or _is_settled(word, after):
        return True
    if word == "well":
        return pattern("not_well").match(after) is not None
    if word in words("evaluative_adverbs"):
        return (
            pattern("plainly").match(after) is not None
            or pattern("by_means").search(after) is not None
        )
    return word in _FOR_AN_AUDIENCE and pattern("audience").match(after) is not None


def _is_settled(word: str, after: str) -> bool:
    """Whether it is part of a term such as `clear liquid`, or a verb as in `clear the cache`."""
    following = re.match(r"\s+([\w-]+)(?:\s+([\w-]+))?", after)
    if following is None:
        return False
    nearby = [part.lower() for part in following.groups() if part]
    if word in ("clear", "sound", "clean") and nearby[0] in ("the", "a", "an", "its", "all", "out"):
        return True
    terms = word_lists()["settled"].get(word, "").split()
    return any(part in terms or part.removesuffix("s") in terms for part in nearby)


# R003 and R011: whether a scale of choices says what each of them means, and runs from worst to best.


def explains_levels(criterion: Criterion, text: RequirementText) -> bool:
    """Whether it offers more than two choices, and says what each of them means."""
    return len(criterion.choices) > 2 and not _without_meaning(criterion.choices, text.said)


def unanchored(criterion: Criterion, text: RequirementText) -> Iterator[Hit]:
    """Levels without a description of each."""
    missing = _without_meaning(criterion.choices, text.said)
    if criterion.choices == BINARY_CHOICES and pattern("rating").search(text.plain):
        message = "it asks for a rating, and the judge may only say MET or UNMET"
        yield Hit(
            "R003",
            message,
            "list the levels under `choices`, and say in the requirement what each one means",
        )
    elif len(criterion.choices) > 2 and missing:
        shown = ", ".join(f"'{label}'" for label in missing[:5])
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        message = f"nothing says when a response deserves {shown}{more}"
        yield Hit(
            "R003",
            message,
            "describe each level, in the requirement or in the label itself",
            "choices",
        )


def _without_meaning(choices: Sequence[str], said: str) -> list[str]:
    """The labels of one or two words that do not stand in the requirement with something said about them."""
    short = {label: re.escape(label.strip()) for label in choices if len(label.split()) < 3}
    told = r"(?<!\w){}(?!\w)\W*\w+\W+\w+"
    return [
        label
        for label, word in short.items()
        if not re.search(told.format(word), said, re.IGNORECASE)
    ]


def upside_down(criterion: Criterion, text: RequirementText) -> Iterator[Hit]:
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
    if choices[0] not in ("met", "pass", "passed") and _described_fault(text):
        return  # for a question about a fault, `yes` is the worst answer and comes first
    message = (
        f"the choices run from '{criterion.choices[0]}' to '{criterion.choices[-1]}', "
        "and the first one listed is worth 0"
    )
    severity = None
    if choices[0] in ("yes", "true"):
        severity = "warning"  # it is not certain which answer to a question is better
    yield Hit("R011", message, "list the choices from worst to best", "choices", severity)


# R004: several, many, enough.


def uncounted(criterion: Criterion, text: RequirementText) -> Iterator[Hit]:
    """A count that no number bounds."""
    if text.is_bounded or explains_levels(criterion, text):
        return
    for name in ("counted_anywhere", "counted_if_given"):
        for found in pattern(name).finditer(text.own):
            amount = " ".join(found["amount"].lower().split())
            after = text.own[found.end() :]
            is_for_a_purpose = amount == "enough" and pattern("purpose").match(after)
            if not (pattern("count_said").match(after) or is_for_a_purpose):
                yield Hit(
                    "R004",
                    f"'{amount}' names no number",
                    f"say how many, such as 'at least two' for '{amount}'",
                )
                return


# R005: a fault that is rewarded, and a virtue that is punished.


def polarity(criterion: Criterion, text: RequirementText) -> Iterator[Hit]:
    """A fault with a positive weight, or a virtue with a negative one."""
    weight = criterion.weight
    if criterion.choices != BINARY_CHOICES or weight == 0:
        return
    if weight > 0 and (fault := _described_fault(text)):
        message = f"'{fault}' describes a fault, and the weight of {weight:+g} rewards it"
        yield Hit(
            "R005",
            message,
            f"give it the weight {-weight:g}, or describe what a good response does",
        )
    if weight < 0 and (virtue := _described_virtue(text)):
        message = f"'{virtue}' describes a virtue, and the weight of {weight:g} punishes it"
        yield Hit("R005", message, f"give it the weight {-weight:+g}, or describe the fault itself")


def _described_fault(text: RequirementText) -> str:
    """The words with which it describes a fault; empty when it does not."""
    if pattern("negated").match(text.own) or pattern("avoids").match(text.own):
        return ""
    found = pattern("describes_fault").match(text.own)
    return "" if found is None else " ".join(found["fault"].split())


def _described_virtue(text: RequirementText) -> str:
    """The words with which it describes a virtue, be it only the absence of a fault."""
    avoids, negated = pattern("avoids").match(text.own), pattern("negated").match(text.own)
    if avoids is None and negated is not None:
        rest = negated["rest"]
        names_fault = pattern("names_fault").match(rest) or pattern("harm").match(rest)
        return "not …" if names_fault else ""
    found = avoids or pattern("describes_virtue").match(text.own)
    return "" if found is None else " ".join(found["virtue"].split())


# R006: sentences that say no twice.


def negation(_: Criterion, text: RequirementText) -> Iterator[Hit]:
    """Two negations, or words that tell the judge which verdict to give."""
    double, verdict = (
        pattern("double_negation").search(text.own),
        pattern("verdict").search(text.plain),
    )
    if double is not None:
        message = f"'{' '.join(double[0].split())}' says no twice"
        yield Hit("R006", message, "say what the response does, without the two negations")
    elif verdict is not None:
        message = (
            f"'{verdict[0]}' tells the judge which verdict to give, and may turn the question round"
        )
        yield Hit("R006", message, "describe only what is to be there; MET then means that it is")


# R010: a judge has the query, perhaps a reference, the response, and the criterion, and nothing else.

_UNSEEN = tuple(map(compiled, word_lists()["unseen"]))
_ADDRESS = re.compile(r"(?:https?://|www\.)[^\s)\]}>,;]+", re.IGNORECASE)


def unseen(_: Criterion, text: RequirementText) -> Iterator[Hit]:
    """References to what no judge has before it."""
    what = next(_references(text), None)
    if what:
        yield Hit(
            "R010",
            f"a judge is not shown '{what}'",
            "put what it says into the requirement, or into the query",
        )


def _references(text: RequirementText) -> Iterator[str]:
    """What is referred to and neither to be quoted nor said over again; and links that must be opened, not given."""
    own, said = text.own, text.said
    for unseen_thing in _UNSEEN:
        for found in unseen_thing.finditer(own):
            if not (
                pattern("quotes").search(own[: found.start()])
                or pattern("says_itself").search(own, found.end())
            ):
                yield " ".join(found["what"].split()).rstrip(".")
    for found in _ADDRESS.finditer(said):
        before = said[: found.start()]
        is_named = pattern("at").search(before) and not pattern("to_give").search(before)
        if pattern("to_open").search(before) or is_named:
            yield found[0].rstrip(".")


# R012: an answer that is known to be right has to be shown to the judge.


def unreferenced(criterion: Criterion, text: RequirementText) -> Iterator[Hit]:
    """Mentions of a reference where the judge is shown none."""
    found = pattern("reference").search(text.plain)
    # A placeholder may hold it, as in `Agrees with the reference answer {answer}`.
    if found is None or criterion.reference or list_paths(criterion.requirement):
        return
    what = " ".join(found["what"].split())
    message = f"'{what}' is not shown to the judge"
    yield Hit("R012", message, "name its column, as in `reference: answer`")


# R013: advice that does harm, and is rewarded.


def harmful(criterion: Criterion, text: RequirementText) -> Iterator[Hit]:
    """Harmful advice with a positive weight."""
    if criterion.weight <= 0 or criterion.choices != BINARY_CHOICES:
        return
    # The rubric's own words end at `recommends`, and what is recommended decides here.
    found = pattern("harmful").match(text.plain)
    if found is not None:
        harm = " ".join(found["harm"].split())
        message = (
            f"'{harm}' seems to describe harm, and the weight of {criterion.weight:+g} rewards it"
        )
        advice = f"give it the weight {-criterion.weight:g}, or say what a good response does"
        yield Hit("R013", message, advice, "weight")


_RULES: tuple[Callable[[Criterion, RequirementText], Iterator[Hit]], ...] = (
    compound,
    vague,
    unanchored,
    uncounted,
    polarity,
    negation,
    unseen,
    upside_down,
    unreferenced,
    harmful,
)
