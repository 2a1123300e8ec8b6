"""Write the prompts for judges: the query, the response in a fence, and then the criteria.

All prompts about one response start with the same text, so that a provider can cache it. The words
of the system prompts are in `prompts/`.
"""

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from assay.criterion import BINARY_CHOICES, NOT_APPLICABLE, Criterion
from assay.errors import JudgeError
from assay.graders.fences import escape_prompt_tags, fence, make_mark
from assay.graders.judge_input import JudgeInput

if TYPE_CHECKING:
    from assay.media import Medium

_VERSION = re.compile(r"<!-- version (\d+) -->\s*")  # the first line of every prompt file


@cache
def system_prompt(name: str, package: str = "assay.graders") -> str:
    """Return the text of a prompt in the `prompts/` folder of a package."""
    return _VERSION.sub("", _read_prompt_file(name, package), count=1).strip()


@cache
def prompt_version(name: str, package: str = "assay.graders") -> str:
    """Return the name and version of a prompt, such as `per_criterion/4`; cache keys contain it."""
    version = _VERSION.match(_read_prompt_file(name, package))
    assert version is not None, f"prompts/{name}.md must start with its version"
    return f"{name}/{version.group(1)}"


@cache
def _read_prompt_file(name: str, package: str) -> str:
    """Return the whole text of a prompt file, with its version in the first line."""
    from importlib.resources import files  # slow to load, and only judged rubrics need it

    return files(package).joinpath("prompts", f"{name}.md").read_text(encoding="utf-8")


def write_opening(judge_input: JudgeInput) -> str:
    """Write what all prompts about one response share: query, reference, and the fenced response."""
    sections: list[str] = []
    if judge_input.query:
        query = escape_prompt_tags(judge_input.escaped_query)
        sections.append(f"<query>{query}</query>\n\n")
    if judge_input.reference:
        reference = escape_prompt_tags(judge_input.escaped_reference)
        sections.append(fence(f"<reference>\n{reference}\n</reference>"))
        if judge_input.reference_is_tagged:
            sections.append(f"\n{system_prompt('reference')}")
        sections.append("\n\n")
    # The response comes last, so that prompts about other responses to the same query are equal
    # up to this point.
    response = escape_prompt_tags(judge_input.escaped_text)
    sections.append(fence(f"<response>\n{response}\n</response>"))
    return "".join(sections) + "\n\n"


def add_media(text: str, media: "Sequence[Medium]") -> str | tuple[Any, ...]:
    """Return a text followed by media in a fence, each in a tag with its address.

    The result is a tuple of texts and media in order, or the text itself if there are no media.
    """
    if not media:
        return text
    mark = make_mark("".join(medium.description["sha256"] for medium in media))
    content: list[Any] = []
    # Texts and media take turns, so a text closes the tag before it and opens the one after it.
    next_text = f"{text}[material {mark} begins]"
    for medium in media:
        next_text += f'\n<part id="{medium.address}">'
        content.append(next_text)
        content.append(medium)
        next_text = "</part>"
    next_text += f"\n[material {mark} ends]\n\n"
    content.append(next_text)
    return tuple(content)


def write_criterion(criterion: Criterion, *, reverse: bool = False) -> str:
    """Write the end of a prompt about one criterion; `reverse` lists its choices from best to worst.

    It is written once for each criterion, and kept in `criterion.memo`.
    """
    key = "criterion_prompt_reversed" if reverse else "criterion_prompt"
    text = criterion.memo.get(key)
    if text is not None:
        return text
    text = (
        f"<criterion_type>{_name_type(criterion)}</criterion_type>\n"
        f"<criterion>{_escape_requirement(criterion)}</criterion>"
    )
    labels = get_listed_labels(criterion, reverse=reverse)
    if labels:
        order = ""
        if _is_best_first(criterion, labels):
            order = ' order="from the most to the least"'
        label_lines = escape_prompt_tags("\n".join(labels))
        text += f"\n<choices{order}>\n{label_lines}\n</choices>"
    if criterion.requires_evidence:
        text += f"\n\n{system_prompt('evidence')}"
    criterion.memo[key] = text
    return text


def write_criteria(
    criteria: Sequence[Criterion], *, vetoes: bool = False, reverse: bool = False
) -> str:
    """Write the end of a prompt about several criteria, one numbered line for each.

    `vetoes` adds how far a required criterion that fails limits the overall score; `reverse` lists
    choices from best to worst.
    """
    lines: list[str] = []
    for number, criterion in enumerate(criteria, start=1):
        properties = [_name_type(criterion), f"weight {criterion.weight:.12g}"]
        labels = get_listed_labels(criterion, reverse=reverse)
        if labels:
            order = ""
            if _is_best_first(criterion, labels):
                order = ", from the most to the least"
            properties.append(f"one of{order}: {escape_prompt_tags(' | '.join(labels))}")
        if criterion.requires_evidence:
            properties.append("evidence required")
        if vetoes and criterion.required:
            highest = 100 * criterion.cap
            properties.append(f"required: if it fails, at most {highest:.12g} overall")
        # Indented, so that a line break in a requirement cannot start another numbered line.
        requirement = _escape_requirement(criterion).replace("\n", "\n   ")
        lines.append(f"{number}. [{', '.join(properties)}] {requirement}")
    listed = "\n".join(lines)
    text = f"<criteria>\n{listed}\n</criteria>"
    if any(criterion.requires_evidence for criterion in criteria):
        text += f"\n\nWhere evidence is required: {system_prompt('evidence')}"
    return text


def get_listed_labels(criterion: Criterion, *, reverse: bool = False) -> tuple[str, ...]:
    """Return the labels that a prompt lists: from worst to best, with `reverse` from best to worst.

    If MET and UNMET are the only labels, none are listed, since every system prompt names these
    two, MET first. With `reverse`, they are listed as UNMET, MET, which is the opposite order.
    """
    choices = criterion.choices
    has_usual_labels = choices == BINARY_CHOICES and not criterion.allow_na
    if has_usual_labels and not reverse:
        return ()
    if has_usual_labels:
        return ("UNMET", "MET")
    if reverse:
        choices = choices[::-1]
    if criterion.allow_na:
        return (*choices, NOT_APPLICABLE)
    return choices


def _is_best_first(criterion: Criterion, labels: Sequence[str]) -> bool:
    """Whether the labels start with the best choice, which is the last choice of a criterion."""
    return labels[0] == criterion.choices[-1]


def _name_type(criterion: Criterion) -> str:
    """Return how prompts call the type of a criterion; a negative one describes a fault."""
    return "negative" if criterion.weight < 0 else "positive"


def _escape_requirement(criterion: Criterion) -> str:
    """Return the requirement for a prompt. Raise a `JudgeError` if a check answers the criterion."""
    if criterion.requirement is None:
        raise JudgeError(
            f"criterion {criterion.name!r} is answered by code, so a judge cannot be asked about "
            "it: score it with a Rubric"
        )
    return escape_prompt_tags(criterion.requirement)
