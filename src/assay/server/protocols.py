"""The requests that clients send for scores: our own format, OpenRLHF's and slime's.

NeMo-Gym's are in `nemo_gym`. The types of bodies and replies also make the OpenAPI description.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.exceptions import HTTPException

from assay.aggregation import Policy, fill_unscored
from assay.integrations.reward_functions import cut_response, make_openrlhf_reply, read_label
from assay.integrations.step import Scored
from assay.report import EvaluationReport
from assay.rollout import Rollout
from assay.server.payloads import convert_body

Chat: TypeAlias = list[dict[str, Any]]  # messages, each with its role and content
Number: TypeAlias = float | None


@dataclass(frozen=True)
class ScoringResults:
    """What the reply to a scoring request is made from: its rollouts, their reports, and settings."""

    rollouts: Sequence[Rollout]
    reports: Sequence[EvaluationReport]
    rubric_hash: str  # of the rubric that scored them
    criterion_names: Sequence[str]
    unscored: Policy  # what a reply holds in place of a reward that is missing

    @property
    def groups(self) -> list[str]:
        """A name for the group of each rollout: rollouts with the same prompt are one group."""
        return [repr(rollout.prompt) for rollout in self.rollouts]

    def fill_rewards(self) -> list[Number]:
        """Return the reward of each rollout; for an unscored one, what the policy puts in its place.

        A reward may still be None: the policy `drop` sends null. Raise `UnscoredError` if the policy
        is `raise` or has no number for one of them.
        """
        rewards = [report.raw_score for report in self.reports]
        if None not in rewards:
            return rewards
        return fill_unscored(rewards, self.unscored, self.groups)


class ScoringRequest(ABC):
    """A request for scores in the format of one kind of client.

    A subclass describes the format; an object of it is one request.
    """

    name: ClassVar[str]  # the value of the label `route` in metrics
    path: ClassVar[str]  # of the URL
    summary: ClassVar[str]  # for the OpenAPI document
    body_type: ClassVar[Any]
    reply_type: ClassVar[Any]
    # Whether the reply holds only a number for each rollout, with no room for an error.
    takes_numbers_only: ClassVar[bool] = True
    # Whether a reply with numbers only can still mark a rollout as failed. If it cannot, a request
    # with an unscored rollout may have to be refused.
    marks_failures: ClassVar[bool] = False

    rollouts: Sequence[Rollout]  # what to score

    @abstractmethod
    def __init__(self, body: Any) -> None:
        """Read the rollouts from the decoded JSON of a body; raise HTTPException if it is not valid."""

    @abstractmethod
    def write_reply(self, results: ScoringResults) -> Any:
        """Return the reply as a value of `reply_type`.

        Raise `UnscoredError` if the format needs a number for a rollout that has none.
        """


# POST /v1/score: our own format


class RolloutBody(Struct, forbid_unknown_fields=True):
    """A rollout: its completion and further fields that checks name; or only a state with all fields."""

    prompt: str | Chat | UnsetType = UNSET
    # A text or messages. Any other value is an error of this rollout, not of the request.
    completion: Any = UNSET
    answer: Any = UNSET
    task: str | UnsetType = UNSET
    info: dict[str, Any] | UnsetType = UNSET
    state: dict[str, Any] | UnsetType = UNSET
    columns: dict[str, Any] | UnsetType = UNSET


class ScoreBody(Struct, forbid_unknown_fields=True):
    """What to score. With `report`, every item has its report, line by line."""

    rollouts: list[RolloutBody]
    report: bool = False


class Item(Struct, omit_defaults=True):
    """The result of one rollout. Without a score, `reward` and `score` are null and `errors` says why."""

    reward: Number
    score: Number
    errors: dict[str, str] | None = None
    partial_reward: Number = None  # the sum of what was answered, if there is no reward
    outcome: Number = None  # the reward before shaping, if the rubric shapes it
    report: dict[str, Any] | None = None


class ScoreReply(Struct):
    """One item per rollout, in order, and the hash of the rubric that scored them.

    The hash is "unknown" if the code of the rubric cannot be identified.
    """

    rubric: Annotated[str, Meta(pattern="^([0-9a-f]{64}|unknown)$")]
    items: list[Item]


class NativeRequest(ScoringRequest):
    """`POST /v1/score`, the server's own format."""

    name = "score"
    path = "/v1/score"
    summary = "Score rollouts; one without a score says why."
    body_type = ScoreBody
    reply_type = ScoreReply
    takes_numbers_only = False

    def __init__(self, body: Any) -> None:
        # The conversion checks the body. The rollouts are built from the dicts, in which a field
        # that was left out is missing; in a `RolloutBody` every field has a value.
        self._wants_reports = convert_body(body, ScoreBody).report
        self.rollouts = [_build_rollout(fields) for fields in body["rollouts"]]

    def write_reply(self, results: ScoringResults) -> ScoreReply:
        """Return an item per rollout: its reward and score, or why it has none."""
        items: list[Item] = []
        for report in results.reports:
            if report.scored:
                item = Item(reward=report.raw_score, score=report.score, outcome=report.unshaped)
            else:
                item = Item(
                    reward=None,
                    score=None,
                    errors=report.errors or report.why_unscored,
                    partial_reward=report.partial_reward,
                )
            if self._wants_reports:
                item.report = report.to_dict()
            items.append(item)
        return ScoreReply(rubric=results.rubric_hash, items=items)


def _build_rollout(fields: dict[str, Any]) -> Rollout:
    """Return the rollout that a valid `RolloutBody` describes; `fields` are those that were sent.

    Raise HTTPException if there is neither a completion nor a state alone.
    """
    if "completion" in fields:
        return Rollout(**fields)
    if fields.keys() == {"state"}:
        return Rollout.from_state(fields["state"])
    raise HTTPException(
        400, "a rollout has no completion: give one, or only a state that has all fields"
    )


# POST /openrlhf: as OpenRLHF asks its remote reward model


class OpenRLHFBody(Struct):
    """What OpenRLHF sends: lists with one entry per rollout.

    In practice it sends one rollout at a time, and empty lists to further servers.
    """

    query: list[str]  # the prompt and the response, as one text with special tokens
    prompts: list[str] = []
    labels: list[Any] = []


class OpenRLHFReply(Struct):
    """What OpenRLHF expects: lists with one entry per rollout."""

    rewards: list[Number]  # the weighted sums of the criteria
    scores: list[Number]  # from 0 to 1
    extra_logs: dict[str, list[Number]]  # the value of each criterion, and `unscored`


class OpenRLHFRequest(ScoringRequest):
    """`POST /openrlhf`."""

    name = "openrlhf"
    path = "/openrlhf"
    summary = "Score as OpenRLHF asks."
    body_type = OpenRLHFBody
    reply_type = OpenRLHFReply

    def __init__(self, body: Any) -> None:
        parsed = convert_body(body, OpenRLHFBody)
        queries = parsed.query
        prompts = parsed.prompts or [""] * len(queries)
        labels = parsed.labels or [""] * len(queries)
        for name, values in (("prompts", prompts), ("labels", labels)):
            if len(values) != len(queries):
                raise HTTPException(
                    400,
                    f"there are {len(queries)} queries and {len(values)} {name}: send one of each "
                    "for every rollout",
                )
        rollouts: list[Rollout] = []
        for index, (query, prompt, label) in enumerate(zip(queries, prompts, labels, strict=True)):
            try:
                response = cut_response(query, prompt)
            except ValueError as error:
                raise HTTPException(400, f"query {index}: {error}") from None
            rollouts.append(_build_labelled_rollout(prompt, response, label))
        self.rollouts = rollouts

    def write_reply(self, results: ScoringResults) -> OpenRLHFReply:
        """Return the rewards and scores as OpenRLHF expects them, with the values of all criteria."""
        scored = [Scored.of(report, results.criterion_names) for report in results.reports]
        return OpenRLHFReply(**make_openrlhf_reply(scored, results.unscored, results.groups))


def _build_labelled_rollout(prompt: str | Chat, completion: str, label: Any) -> Rollout:
    """Return a rollout whose label is the answer, or a mapping of columns with a `rubric`."""
    columns = read_label(label)
    answer = columns.pop("answer")
    return Rollout(prompt=prompt, completion=completion, answer=answer, columns=columns)


# POST /slime: what slime sends with `--rm-type remote_rm`, or a list of it for a group


class SlimeSample(Struct):
    """What slime sends to score one response."""

    response: str
    prompt: str | Chat = ""
    label: Any = ""


class SlimeRequest(ScoringRequest):
    """`POST /slime`."""

    name = "slime"
    path = "/slime"
    summary = "Score as slime asks."
    body_type = SlimeSample | list[SlimeSample]
    reply_type = Number | list[Number]

    def __init__(self, body: Any) -> None:
        self._is_group = isinstance(body, list)  # then the reply has to be a list too
        if self._is_group:
            samples = convert_body(body, list[SlimeSample])
        else:
            samples = [convert_body(body, SlimeSample)]
        self.rollouts = [
            _build_labelled_rollout(sample.prompt, sample.response, sample.label)
            for sample in samples
        ]

    def write_reply(self, results: ScoringResults) -> Number | list[Number]:
        """Return the reward of the sample, or a list of rewards if a list of samples was sent."""
        rewards = results.fill_rewards()
        if self._is_group:
            return rewards
        return rewards[0]
