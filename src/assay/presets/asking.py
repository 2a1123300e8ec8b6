"""Judge: one or more models, asked about a completion in the words of a template."""

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, cast

from assay.concurrency import side_by_side
from assay.errors import RubricError
from assay.graders.prompting import fenced, prompt_version, system_prompt
from assay.models import Model, Request, default_model, model_of
from assay.models.judge_log import ask_judge
from assay.presets.templates import Template
from assay.types import Message
from assay.wording import short_repr

USUAL_MODEL = "gpt-4.1-nano"
"""Asked of a client when nobody names a model: what people who come from verifiers expect."""

KEPT = "judge_response"
"""The field of a state in which replies are kept, by judge and prompt."""

WRITTEN = ("completion", "response")
"""The places for what the model under test wrote; one of them must be in a template."""

_LIMITS = ("max_tokens", "max_completion_tokens")


class Judge:
    """Asks models in the words of a template. What is asked of one state twice is asked once."""

    def __init__(
        self,
        models: Sequence[Model],
        template: str,
        *,
        form: str = "",
        settings: Mapping[str, Any] | None = None,
        hardened: bool = True,
    ) -> None:
        """`models` may be empty: then the configured default is asked. `form` is how to reply.

        `settings` are fields of the request. Without `hardened` the words are sent alone and as they are.
        """
        self.template = Template(template)
        if not self.template.places & set(WRITTEN):
            raise RubricError(
                f"the template {short_repr(template)} does not show the judge what it is to judge: put "
                "{completion} or {response} in it"
            )
        self._models = tuple(models)
        self._settings = dict(settings or {})
        self._hardened = hardened
        self._system = "\n\n".join(part for part in (system_prompt("judge"), form) if part)

    @property
    def models(self) -> tuple[Model, ...]:
        """Who is asked: those that were named, or the configured default."""
        return self._models or (default_model(),)

    async def replies(
        self, values: Mapping[str, str], state: object = None, *, count: int | None = None
    ) -> list[str]:
        """What the models, or the first `count` of them, reply to the template with these values."""
        words = self.words(values)

        async def ask(model: Model) -> str:
            return await self._reply(model, words, state)

        return await side_by_side(ask, self.models[:count])

    def words(self, values: Mapping[str, str]) -> str:
        """The template with these values in it; what the model under test wrote in a fence."""
        if self._hardened:
            written = {name: fenced(values[name]) for name in WRITTEN if name in values}
            values = {**values, **written}
        return self.template.filled(values)

    async def _reply(self, model: Model, words: str, state: object) -> str:
        kept, key = _kept(state), f"{model.id}\n\n{words}"
        if kept is not None and key in kept:
            return kept[key]
        reply = await ask_judge(model, self._request(words))
        if kept is not None:
            kept[key] = reply.text
        return reply.text

    def _request(self, words: str) -> Request:
        asked: tuple[Message, ...] = ({"role": "user", "content": words},)
        if self._hardened:
            asked = ({"role": "system", "content": self._system}, *asked)
        return Request(asked, prompt=prompt_version("judge"), **self._settings)


def _kept(state: object) -> dict[str, str] | None:
    """Where the replies of a state are kept; None when it cannot hold them."""
    if not isinstance(state, MutableMapping):
        return None
    fields = cast("MutableMapping[str, Any]", state)
    kept: object = fields.setdefault(KEPT, {})
    return cast("dict[str, str]", kept) if isinstance(kept, dict) else None


def settings_of(sampling: Mapping[str, Any] | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Sampling arguments as fields of a request, and the rest, which goes into every call.

    >>> settings_of({"temperature": 0.7, "max_completion_tokens": 9, "top_p": 0.9, "n": None})
    ({'temperature': 0.7, 'max_tokens': 9}, {'top_p': 0.9})
    """
    settings: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for name, value in (sampling or {}).items():
        if name == "temperature":
            settings[name] = value
        elif value is None:
            continue
        elif name == "seed" or name in _LIMITS:
            settings["max_tokens" if name in _LIMITS else name] = value
        else:
            extra[name] = value
    return settings, extra


def models_of(
    client: Any, names: Sequence[Any] | None, extra: Mapping[str, Any]
) -> tuple[Model, ...]:
    """The models that a client and names stand for; none when nobody is named at all."""
    if isinstance(names, str):
        names = (names,)
    if names is None and client is None:
        _refuse_extra(extra, "the configured default model")
        return ()
    if names is None:
        names = (client,) if isinstance(client, Model) else (USUAL_MODEL,)
        client = None if isinstance(client, Model) else client
    if not names:
        raise RubricError("judge_models is empty: name at least one model")
    return tuple(_model(client, name, extra) for name in names)


def _model(client: Any, name: Any, extra: Mapping[str, Any]) -> Model:
    if not isinstance(name, str):
        _refuse_extra(extra, short_repr(name))
        return model_of(name)
    if client is not None:
        return model_of(client, name, **extra)
    is_bare = not set("/:#") & set(name) and name not in ("local", "smoke")
    return model_of(f"openai/{name}" if is_bare else name, **extra)


def _refuse_extra(extra: Mapping[str, Any], whom: str) -> None:
    if extra:
        raise RubricError(
            f"judge_sampling_args hold {', '.join(extra)}, which {whom} cannot be given any more: "
            "give them to model_of(...)"
        )
