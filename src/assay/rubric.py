"""A Rubric scores rollouts by weighted criteria; a RubricGroup adds several rubrics up."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self, cast

from assay.aggregation import find_aggregation
from assay.base_rubric import BaseRubric
from assay.criterion import AskJudge, Criterion, Scorer, is_scorer, read_ask_judge, read_reference
from assay.display import Page, Section
from assay.engine import ScoringContext, ask_criteria, make_reports
from assay.errors import AssayError, RubricError
from assay.graders.grader import Grader, JudgeSource, grader_of
from assay.graders.judge_input import set_shows, set_thinking
from assay.loading import Loadable, read_criterion_data
from assay.loading.document import Node
from assay.loading.rubric_reader import (
    find_criterion_nodes,
    import_object,
    is_group,
    read_group,
    select_inner_options,
)
from assay.messages import read_completion, read_shows
from assay.parsers import Parser
from assay.plan import Plan, Traits, bind_method, make_names_unique
from assay.reasoning import Thinking, read_thinking
from assay.redaction import get_logger
from assay.report import EvaluationReport, sum_reports
from assay.rollout import Rollout
from assay.shaping import read_shaping
from assay.types import OnError, RewardFunc, ScoringMethod
from assay.wording import describe_error, format_count, format_value

logger = get_logger("assay")


def _is_judged(criterion: Criterion) -> bool:
    """Return whether a judge answers a criterion, or a criterion of the rubric that it holds."""
    return criterion.judged or (
        is_scorer(criterion.check) and Traits.of(criterion.check).asks_model
    )


class Rubric(BaseRubric, Loadable):
    """Weighted criteria that score rollouts, for evaluation, for rewards and for filtering.

    The first argument holds functions, `Criterion`s, mappings and whole rubrics, in any mix.

    >>> def exact(completion, answer):
    ...     return completion == answer
    >>> rubric = Rubric([exact, lambda completion: len(completion) < 10], weights=[0.8, 0.2])
    >>> rubric.score_rollout_sync(prompt="2+2?", completion="4", answer="4")
    {'exact': 1.0, 'check_2': 1.0, 'reward': 1.0}
    """

    _shared_attributes = frozenset(
        {
            "_fallback_parser",
            "_grader",
            "_known_version",
            "_plan",
            "_version_key",
            "aggregation",
            "class_objects",
            "name",
            "on_error",
            "rubrics",
        }
    )

    def __init__(
        self,
        funcs: Sequence[RewardFunc | Criterion | Mapping[str, Any] | Scorer] | None = None,
        weights: Sequence[float | None] | None = None,
        parser: Parser | None = None,
        *,
        judge: JudgeSource | None = None,
        aggregation: Any = "weighted",
        on_error: OnError = "record",
        name: str = "",
        shows: str | Sequence[str] | None = None,
        thinking: Thinking | None = None,
        shaping: Sequence[Any] = (),
        ask_judge: AskJudge = "always",
        reference: str | Sequence[str] = (),
    ) -> None:
        """Build a rubric; whatever is wrong with its criteria is raised here.

        `judge` answers the judged criteria: a grader, a model, or the name of one; see `grader_of`.
        With `on_error="raise"`, errors of checks and judges are raised when rollouts are scored.
        `aggregation` is a name or a function of report lines. `shows` limits what judges read of
        a rollout, see `messages.SHOWS`; None means the same as in the enclosing rubric, or
        everything if there is none. `thinking` says whether judges and text checks read the
        model's reasoning: "hidden" or "shown"; None means the same as in the enclosing rubric, or
        hidden if there is none. `shaping` lists the steps that turn the sum of the criteria
        into the reward, see `assay.shaping`; the score is not affected. With
        `ask_judge="if_checks_pass"`, the judge is not asked about a rollout that fails a check
        that counts, and the judged criteria are unmet. `reference` names the columns of a rollout
        that the judge is shown as the reference for all judged criteria that name none.
        """
        if on_error not in ("record", "raise"):
            raise RubricError(f"on_error is {on_error!r}: give 'record' or 'raise'")
        self.name = name
        # Used if no parser is given; `inherit_parser` replaces it with that of an environment.
        self._fallback_parser = self._default_parser()
        self.class_objects: dict[str, Any] = {
            "parser": self._fallback_parser if parser is None else parser
        }
        self._grader = grader_of(judge)
        self.on_error: OnError = on_error
        self.aggregation = find_aggregation(aggregation)
        self.shows = None if shows is None else read_shows(shows)
        self.thinking: Thinking | None = None if thinking is None else read_thinking(thinking)
        self.reference = read_reference(reference)
        criteria = make_names_unique(self._read_criteria(funcs, weights))
        self.ask_judge = read_ask_judge(ask_judge)
        self._plan = Plan(criteria, self.aggregation, ask_judge=self.ask_judge)
        # A part of the shaping may name a criterion, which is checked here. A subclass may still
        # add criteria, so its names are not complete yet.
        names = self._plan.names if type(self) is Rubric else None
        self.shaping = read_shaping(shaping, names)

    def code_criteria(self) -> "Rubric":
        """Return this rubric with only the criteria that code answers.

        >>> rubric = Rubric.from_dict([{"check": {"contains": "Paris"}}, {"requirement": "Is kind"}])
        >>> rubric.code_criteria(), rubric.judged_criteria()
        (<Rubric [contains +1]>, <Rubric [is_kind +1]>)
        """
        return self.with_criteria([c for c in self.criteria if not _is_judged(c)])

    def judged_criteria(self) -> "Rubric":
        """Return this rubric with only the criteria that a judge answers."""
        return self.with_criteria([c for c in self.criteria if _is_judged(c)])

    def with_criteria(self, criteria: Sequence[Any]) -> "Rubric":
        """Return a rubric with these criteria, and all else as here.

        Raises `RubricError` for a subclass of `Rubric`, which may need other arguments.
        """
        if type(self) is not Rubric:
            raise RubricError(
                f"a {type(self).__name__} cannot be copied with other criteria: make a new one"
            )
        rubric = Rubric(
            criteria,
            parser=self.given_parser,
            judge=self.grader,
            aggregation=self.aggregation,
            on_error=self.on_error,
            name=self.name,
            shows=self.shows,
            thinking=self.thinking,
            shaping=self.shaping,
            ask_judge=self.ask_judge,
            reference=self.reference,
        )
        for name, value in self.class_objects.items():
            if name != "parser":
                rubric.add_class_object(name, value)
        return rubric

    async def _score_by_criteria(
        self,
        rollouts: Sequence[Rollout],
        grader: Grader | None,
        called_method: ScoringMethod,
    ) -> list[EvaluationReport]:
        """Return one report per rollout, by the criteria of this rubric."""
        context = ScoringContext(
            plan=self._plan,
            class_objects=self._find_class_objects(rollouts),
            grader=self.grader if grader is None else grader,
            on_error=self.on_error,
            read_completion=self._read_completion,
            called_method=called_method,
            version=self._get_version(),
        )
        if self.shows is None and self.thinking is None:
            answers = await ask_criteria(rollouts, context)
        else:
            with set_shows(self.shows), set_thinking(self.thinking):
                answers = await ask_criteria(rollouts, context)
        return await make_reports(answers, context)

    def _list_code(self) -> list[object]:
        """Return the code of the criteria, and the parser and other objects that checks take."""
        code = super()._list_code()
        for planned in self._plan.planned:
            if planned.function is not None:
                names = self.class_objects.keys() & planned.function.parameters.keys()
                code += [self.class_objects[name] for name in sorted(names)]
        return code

    def identity_state(self) -> dict[str, Any]:
        """Return what decides the results of this rubric and of its methods that are checks."""
        state = dict(vars(self))
        for name in ("_plan", "_version_key", "_known_version"):
            state.pop(name, None)  # these are computed from the criteria
        state["criteria"] = self.criteria
        return state

    def _find_class_objects(self, rollouts: Sequence[Rollout]) -> Mapping[str, Any]:
        """Return what checks may name besides the fields of these rollouts."""
        return self.class_objects

    def _read_completion(self, completion: object) -> Any:
        """Return the completion as criteria read it; raise TypeError if it cannot be read."""
        return read_completion(completion)

    def _raise_if_group_needed(self) -> None:
        """Raise RubricError if there are no criteria, or if they need the rest of the group."""
        if self.overridden & {"score_rollout", "score"}:
            return  # the override decides
        if not self._plan.planned:
            raise RubricError(
                "this rubric has no criteria, so there is nothing to score: "
                "call add_reward_func(...)"
            )
        for planned in self._plan.planned:
            if planned.function is not None and planned.function.compares:
                name = planned.criterion.name
                raise RubricError(f"check {name!r} scores a whole group: use score_group")
        self._raise_if_shaping_compares()

    def _raise_if_shaping_compares(self) -> None:
        """Raise RubricError if the shaping needs all rollouts of a group."""
        for name in self._list_comparing_shapings():
            raise RubricError(
                f"the shaping {name!r} compares the rollouts of a group: use score_group"
            )

    def _list_comparing_shapings(self) -> list[str]:
        """Return the names of the shaping parts that need all rollouts of a group."""
        return [part.name for part in self.shaping if part.compares]

    # Criteria.

    @property
    def criteria(self) -> tuple[Criterion, ...]:
        """The criteria in order, with the names under which they are reported."""
        return self._plan.criteria

    @property
    def counted_weights(self) -> dict[str, float]:
        return {criterion.name: criterion.weight for criterion in self.criteria if criterion.counts}

    def add_reward_func(self, func: RewardFunc, weight: float = 1.0) -> None:
        """Append a check with this weight."""
        added = make_names_unique(self._read_criteria([func], [weight]), self._plan.names)
        _raise_if_cyclic(self, [criterion.check for criterion in added])
        criteria = (*self._plan.criteria, *added)
        self._plan = Plan(
            criteria, self.aggregation, ask_judge=self.ask_judge, planned=self._plan.planned
        )

    def add_metric(self, func: RewardFunc, weight: float = 0.0) -> None:
        """Append a check that is reported and, with weight 0, never counted."""
        self.add_reward_func(func, weight)

    def as_criterion(self, weight: float = 1.0, name: str = "") -> Criterion:
        """Return this rubric as one criterion of another, worth its normalised score."""
        return Criterion(check=self, weight=weight, name=name or self.name or "rubric")

    def _read_criteria(self, funcs: Any, weights: Iterable[float | None] | None) -> list[Criterion]:
        """Convert what was given to criteria; methods of this class are bound to this rubric."""
        items = _list_criteria(funcs)
        criteria: list[Criterion] = []
        for index, (item, weight) in enumerate(
            zip(items, _list_weights(weights, len(items)), strict=True)
        ):
            if isinstance(item, Mapping):
                item = read_criterion_data(cast("Mapping[str, Any]", item), index, Rubric)
            criterion = Criterion.of(item, weight)
            if getattr(criterion.check, "shaping", ()):
                raise RubricError(
                    f"criterion {criterion.name!r} is a rubric with a shaping of its own, but "
                    "only its score counts: shape the reward of the enclosing rubric"
                )
            if self.reference and criterion.judged and not criterion.reference:
                criterion = criterion.with_fields(reference=self.reference)
            check = bind_method(self, criterion.check)
            if check is not criterion.check:
                criterion = criterion.with_fields(check=check)
            criteria.append(criterion)
        return criteria

    # Judge, parser, class objects and nested rubrics.

    @property
    def grader(self) -> Grader | None:
        """What answers the judged criteria; None if the judge is named when rollouts are scored.

        It can be set to whatever the argument `judge` may be. (`judge` is a method of `JudgeRubric`,
        as in verifiers.)
        """
        return self._grader

    @grader.setter
    def grader(self, judge: JudgeSource | None) -> None:
        self._grader = grader_of(judge)

    @property
    def needs_judge(self) -> bool:
        """Whether a criterion is judged, here or in a nested rubric, for which no rubric has a judge."""
        if self._grader is not None:
            return False
        if any(criterion.judged for criterion in self._plan.criteria):
            return True
        return any(inner.needs_judge for inner in self._list_nested())

    @property
    def parser(self) -> Parser:
        """The parser that checks read with: the class object of that name."""
        return self.class_objects["parser"]

    @parser.setter
    def parser(self, parser: Parser) -> None:
        self.class_objects["parser"] = parser

    def _default_parser(self) -> Parser:
        return Parser()

    def inherit_parser(self, parser: Parser) -> None:
        """Use an environment's parser if none was given, here and in nested rubrics."""
        if self.parser is self._fallback_parser:
            self._fallback_parser = parser
            self.parser = parser
        for inner in self._list_nested():
            inner.inherit_parser(self.parser)

    @property
    def given_parser(self) -> Parser | None:
        """The parser that this rubric was given; None if it has that of its class or environment."""
        return None if self.parser is self._fallback_parser else self.parser

    def use_parser(self, parser: Parser) -> None:
        """Set the parser that checks read with from now on, here and in nested rubrics."""
        self.parser = parser
        self.caller_parser = parser
        for inner in self._list_nested():
            inner.use_parser(parser)

    def add_class_object(self, name: str, obj: Any) -> None:
        """Let checks take `obj` as an argument; it takes precedence over a field of that name."""
        self.class_objects[name] = obj

    def show(
        self, shows: str | Sequence[str] | None = None, *, thinking: Thinking | None = None
    ) -> None:
        """Set what judges and text checks read from now on, here and in nested rubrics.

        None leaves it as it is. What a criterion says about `thinking` stays. The rubrics that rows
        of data bring get the same later, from `caller_shows` and `caller_thinking`.
        """
        if shows is not None:
            self.shows = read_shows(shows)
            self.caller_shows = self.shows
        if thinking is not None:
            self.thinking = read_thinking(thinking)
            self.caller_thinking = self.thinking
        for inner in self._list_nested():
            inner.show(shows, thinking=thinking)

    # The version that reports carry.

    # What the last version was computed from, and the version.
    _version_key: tuple[Any, ...] | None = None
    _known_version: str = ""

    def _get_version(self) -> str:
        """Return the content hash, which is computed again only if something has changed."""
        objects = [id(value) for value in self.class_objects.values()]
        nested = [inner._get_version() for inner in self._list_nested()]
        return self._remember_version((*self._list_settings(), *objects, *nested))

    def _list_settings(self) -> tuple[Any, ...]:
        return (id(self._plan), self.name, self.shows, id(self.shaping))

    def _remember_version(self, key: tuple[Any, ...]) -> str:
        if self._version_key != key:
            self._version_key = key
            self._known_version = self.content_hash
        return self._known_version

    def _list_nested(self) -> "list[Rubric]":
        return [scorer for scorer in self._plan.scorers if isinstance(scorer, Rubric)]

    # What callers have to know.

    @property
    def compares(self) -> bool:
        return bool(self.traits.comparing_criteria)

    @property
    def traits(self) -> Traits:
        """Whether this rubric or a nested one waits, asks a model, or compares rollouts."""
        methods = self.own_methods
        # `compares` names whatever compares rollouts, for error messages: here shapings and an
        # override of `score_group`.
        comparing = self._list_comparing_shapings()
        if "score_group" in methods:
            comparing.insert(0, "score_group")
        # Any override may wait.
        own_traits = Traits(waits=bool(methods), comparing_criteria=tuple(comparing))
        return Traits.join([*self._list_part_traits(), own_traits])

    def _list_part_traits(self) -> list[Traits]:
        return [planned.traits for planned in self._plan.planned]

    @property
    def own_methods(self) -> frozenset[str]:
        return self.overridden.union(*(inner.own_methods for inner in self._list_nested()))

    def __len__(self) -> int:
        return len(self.criteria)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        parts = [f"{c.name} {c.weight:+g}" for c in self.criteria[:8]]
        if len(self) > 8:
            parts.append(f"… {len(self) - 8} more")
        title = f" {self.name}" if self.name else ""
        return f"<{type(self).__name__}{title} [{', '.join(parts)}]>"

    def _repr_html_(self) -> str:
        rows: list[tuple[str, ...]] = []
        for criterion in self.criteria:
            answered_by = "a model" if criterion.judged else "code"
            weight = f"{criterion.weight:+g}"
            rows.append((criterion.name, weight, answered_by, criterion.requirement or ""))
        name = self.name or type(self).__name__
        title = f"{name}: {format_count(len(rows), 'criterion', 'criteria')}"
        table = Section(("criterion", "weight", "answered by", "requirement"), rows)
        return Page(title, [table]).text("html")

    # Names that programs for verifiers use.

    def _get_reward_func_names(self) -> list[str]:
        return [criterion.name for criterion in self.criteria]

    def get_reward_funcs(self) -> list[Any]:
        """Return the functions of the criteria that code answers, in order."""
        return [criterion.check for criterion in self.criteria if not criterion.judged]

    def get_reward_weights(self) -> list[float]:
        """Return the weights of `funcs`."""
        return [criterion.weight for criterion in self.criteria if not criterion.judged]

    _get_reward_funcs = get_reward_funcs
    _get_reward_weights = get_reward_weights
    funcs = reward_funcs = property(get_reward_funcs)
    weights = reward_weights = property(get_reward_weights)


def _list_criteria(funcs: Any) -> list[Any]:
    """Return the criteria that a rubric was given as a list; raise RubricError for a single one."""
    if funcs is None:
        return []
    if isinstance(funcs, (str, bytes, Mapping, Criterion)) or not hasattr(funcs, "__iter__"):
        raise RubricError(
            f"a rubric takes a list of criteria, not {format_value(cast('object', funcs))}: "
            "put it in brackets"
        )
    return list(funcs)


def _list_weights(weights: Iterable[float | None] | None, size: int) -> list[float | None]:
    """Return one weight per criterion; None stands for the criterion's own weight."""
    if weights is None:
        return [None] * size
    if not hasattr(weights, "__iter__"):
        raise RubricError(f"weights is {format_value(weights)}: give a list with one per function")
    listed = list(weights)
    if not listed:
        return [None] * size
    if len(listed) != size:
        raise RubricError(
            f"Number of weights ({len(listed)}) must match number of functions ({size})"
        )
    return listed


def _raise_if_cyclic(rubric: Rubric, nested: Sequence[object], above: tuple[int, ...] = ()) -> None:
    """Raise RubricError if a rubric contains itself, since it could never be scored."""
    above = (*above, id(rubric))
    for inner in nested:
        if id(inner) in above:
            raise RubricError(
                "a rubric cannot contain itself: remove it from its own criteria or .rubrics"
            )
        if isinstance(inner, Rubric):
            _raise_if_cyclic(inner, inner._list_nested(), above)  # pyright: ignore[reportPrivateUsage]


class RubricGroup(Rubric):
    """Several rubrics as one: rewards are added, and so are metrics of the same name.

    Each rubric keeps its own parser and grader.

    >>> group = RubricGroup([Rubric([lambda: 1.0]), Rubric([lambda: 0.5], weights=[0.8])])
    >>> group.score_rollout_sync()["reward"]
    1.4
    """

    def __init__(
        self, rubrics: Sequence[Rubric], *, shaping: Sequence[Any] = (), **kwargs: Any
    ) -> None:
        if not rubrics:
            raise RubricError("RubricGroup must have at least one rubric")
        for rubric in rubrics:
            if not isinstance(rubric, Rubric):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise RubricError(f"a RubricGroup takes rubrics, not {format_value(rubric)}")
        super().__init__(**kwargs)
        if self._plan.planned:
            raise RubricError("a RubricGroup has no criteria of its own: put them in a Rubric")
        if self.reference:
            raise RubricError("a RubricGroup asks no judge itself: give its rubrics the reference")
        self.rubrics: list[Rubric] = list(rubrics)
        if shaping:
            self.shaping = read_shaping(shaping, self.get_reward_func_names())

    async def _score_by_criteria(
        self,
        rollouts: Sequence[Rollout],
        grader: Grader | None,
        called_method: ScoringMethod,
    ) -> list[EvaluationReport]:
        """Return one report per rollout, which adds up the reports of all children."""
        reports_by_child: list[list[EvaluationReport]] = []
        # In order: a later rubric may read what an earlier one left in the state.
        for child in self._check_children():
            # The grader of this call takes precedence over the child's, and that over the group's.
            child_grader = grader or child.grader or self.grader
            with set_shows(self.shows), set_thinking(self.thinking):
                reports = await child.score_all(rollouts, child_grader, called_method)
            reports_by_child.append(reports)
        version = self._get_version()
        sums: list[EvaluationReport] = []
        for reports in zip(*reports_by_child, strict=True):
            report = sum_reports(reports)
            report.version = version
            sums.append(report)
        return sums

    def _get_version(self) -> str:
        # Its children may change at any time, and each keeps its own version.
        versions = [child._get_version() for child in self.rubrics]
        return self._remember_version((*self._list_settings(), *versions))

    @property
    def criteria(self) -> tuple[Criterion, ...]:
        """The criteria of all children, in order; metrics add up those of the same name."""
        criteria: list[Criterion] = []
        for child in self._check_children():
            criteria.extend(child.criteria)
        return tuple(criteria)

    def _choose_first(self, addition: str) -> "Rubric":
        logger.warning("the %s is added to the first rubric of the group only", addition)
        return self.rubrics[0]

    def add_reward_func(self, func: RewardFunc, weight: float = 1.0) -> None:
        """Add a check to the first rubric of the group."""
        self._choose_first("reward function").add_reward_func(func, weight)

    def add_class_object(self, name: str, obj: Any) -> None:
        """Add a class object to the first rubric of the group."""
        self._choose_first("class object").add_class_object(name, obj)

    @classmethod
    def from_node(cls, node: Node, *, allow_code: bool = False, **options: Any) -> Self:
        """Return the group that a mapping with a list of `rubrics` describes."""
        parts, group_options = read_group(node, allow_code=allow_code)
        child_options = select_inner_options(options)
        rubrics = [rubric_at(part, allow_code=allow_code, **child_options) for part in parts]
        group = cls(rubrics, **group_options | options)
        if "parser" in group_options:
            group.inherit_parser(group.parser)  # for children that name none
        return group

    def to_dict(self) -> dict[str, Any]:
        data: dict[str, Any] = {"name": self.name} if self.name else {}
        data.update(self.options_to_data())
        data["rubrics"] = [child.to_dict() for child in self._check_children()]
        return data

    @property
    def content_hash(self) -> str:
        return self._hash_with_code(
            {
                "format": "assay.group/1",
                "name": self.name,
                "rubrics": [child.content_hash for child in self._check_children()],
                **self.options_to_data(as_hash=True),
            },
            parts="rubrics",
        )

    def _raise_if_group_needed(self) -> None:
        """Raise RubricError if there are no criteria, or if a child needs the rest of the group."""
        # Children that add nothing to the reward are passed over.
        children = [child for child in self._check_children() if len(child) or child.own_methods]
        if not children:
            super()._raise_if_group_needed()  # there are no criteria
        for child in children:
            child._raise_if_group_needed()  # pyright: ignore[reportPrivateUsage]
        self._raise_if_shaping_compares()

    def _check_children(self) -> list[Rubric]:
        """Return the rubrics of this group. Raise RubricError if one of them contains the group."""
        # Checked each time, since `rubrics` is the caller's to change.
        _raise_if_cyclic(self, self.rubrics)
        return self.rubrics

    def _list_nested(self) -> list[Rubric]:
        return self.rubrics

    @property
    def shapes_reward(self) -> bool:
        return bool(self.shaping) or any(child.shapes_reward for child in self.rubrics)

    def _list_part_traits(self) -> list[Traits]:
        return [child.traits for child in self._check_children()]


def rubric_at(node: Node, *, allow_code: bool = False, **options: Any) -> "Rubric":
    """Return the rubric, or the group of rubrics, at a node of a parsed file."""
    kind = RubricGroup if is_group(node) else Rubric
    return kind.from_node(node, allow_code=allow_code, **options)


def rubrics_inside(
    rubric: Rubric, node: Node | None = None, path: str = ""
) -> Iterator[tuple[str, Rubric, Sequence[Node | None]]]:
    """Yield the rubric and all rubrics inside it, except groups, which have no criteria.

    Each comes after a prefix for the names of its criteria, such as `outer/inner/`, and before the
    nodes of its criteria in the file that it was read from. Without a file, the nodes are None.
    `node` and `path` are the node and the prefix of `rubric` itself.
    """
    if isinstance(rubric, RubricGroup):
        for index, child in enumerate(rubric.rubrics):
            child_node = None if node is None else node.at("rubrics").at(index)
            yield from rubrics_inside(child, child_node, f"{path}{child.name or index}/")
        return
    nodes: Sequence[Node | None] = [None] * len(rubric)
    if node is not None:
        nodes = find_criterion_nodes(node)
    yield path, rubric, nodes
    for criterion, criterion_node in zip(rubric.criteria, nodes, strict=True):
        if isinstance(criterion.check, Rubric):
            nested_node = None
            if criterion_node is not None and "rubric" in criterion_node.data:
                nested_node = criterion_node.at("rubric")
            yield from rubrics_inside(criterion.check, nested_node, f"{path}{criterion.name}/")


def rubric_in_python(reference: str) -> "Rubric":
    """Return the rubric that `module:object` names.

    The object is a rubric, a function without arguments that returns one, or a list of criteria.
    """
    rubric = import_object(reference)
    if callable(rubric) and not isinstance(rubric, Rubric):
        try:
            rubric = rubric()
        except AssayError:
            raise
        except Exception as error:  # a user's function may raise anything
            raise RubricError(
                f"{reference} could not be called without arguments to get a rubric: "
                f"{describe_error(error)}; if it is a check, name a list that holds it"
            ) from error
    if isinstance(rubric, list | tuple):
        return Rubric(cast("Sequence[Any]", rubric))
    if not isinstance(rubric, Rubric):
        raise RubricError(
            f"{reference} is {format_value(rubric)}: "
            "name a Rubric, a function that returns one, or a list of criteria"
        )
    return rubric
