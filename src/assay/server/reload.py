"""Load the rubric of the server, and reload it when its file changes."""

import errno
import io
import signal
import threading
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from assay import cache, models
from assay.envs.environment_loader import load_environment
from assay.graders import Grader, Guarded
from assay.loading.document import read_file
from assay.loading.rubric_reader import is_reference
from assay.models.budgets import budget, raise_if_price_unknown
from assay.plan import Traits
from assay.redaction import get_logger, redact
from assay.rubric import Rubric, RubricGroup, rubric_at, rubric_in_python
from assay.server.server_folder import PublishedRubric, ServerFolder
from assay.server.settings import JudgeSettings
from assay.wording import describe_error

logger = get_logger("assay.server")


class RubricLoader:
    """Loads rubrics and gives them the judge of the server.

    The judge is made when a rubric first needs it, and is then the same for all rubrics.
    """

    def __init__(self, judge: JudgeSettings) -> None:
        self._judge_settings = judge
        self._cache: cache.VerdictCache | None = None

    def load(self, published: PublishedRubric) -> Rubric:
        """Return the rubric with its judge, ready to score; raise if anything about it is wrong."""
        rubric = _read_rubric(published)
        # What the judge reads of a rollout; None leaves the rubric's own choice.
        rubric.show(self._judge_settings.shows or None, thinking=self._judge_settings.thinking)
        if self._judge_settings.parser is not None:
            rubric.use_parser(self._judge_settings.parser)
        asks_models = Traits.of(rubric).asks_model
        if self._judge_settings.judge is not None and asks_models:
            _replace_judge(rubric, self._grader)
        elif rubric.needs_judge:  # it has none, and the settings name none: use the default
            rubric.grader = self._grader
        if rubric.grader is not None:
            # A budget cannot be kept if prices are unknown. Raise that error now, not with the first
            # request.
            with budget(dollars=self._judge_settings.budget):
                raise_if_price_unknown(rubric.grader.models())
        return rubric

    @cached_property
    def _grader(self) -> Grader:
        """The grader that the settings describe. It asks the default judge if they name none."""
        if self._judge_settings.cache is not None:
            self._cache = cache.VerdictCache(self._judge_settings.cache)
        judge = self._judge_settings.judge
        if isinstance(judge, Grader):
            return Guarded(judge) if self._judge_settings.guard else judge
        if judge is None:
            judge = models.default_judge()
        return self._judge_settings.build_grader(
            models.model_of(
                judge,
                price=self._judge_settings.price,
                limits=self._judge_settings.limits,
                cache=self._cache,
            )
        )

    def close(self) -> None:
        """Close the cache of the judge."""
        if self._cache is not None:
            self._cache.close()


def _replace_judge(rubric: Rubric, grader: Grader) -> None:
    """Let this grader judge a rubric in place of its own, and also the rubrics inside a group."""
    rubric.grader = grader
    if isinstance(rubric, RubricGroup):
        for child in rubric.rubrics:
            _replace_judge(child, grader)


def _read_rubric(published: PublishedRubric) -> Rubric:
    """Return the rubric that a file describes, or that Python code makes."""
    if published.file is not None:
        # Read the text that was published: the file itself may have changed since.
        file: Any = io.BytesIO(published.text)
        file.name = published.name  # shown in messages
        return rubric_at(read_file(file), allow_code=published.allow_code)
    if is_reference(published.name):
        return rubric_in_python(published.name)
    # An environment without a rubric is served with an empty one.
    return load_environment(published.name).scoring or Rubric()


def describe_load_error(error: Exception) -> str:
    """Return why a rubric could not be loaded, without keys or other secrets."""
    return redact(str(error)) or describe_error(error)


def follow_file(folder: ServerFolder, loader: RubricLoader, stop: threading.Event) -> None:
    """Publish the rubric file of a server whenever it changes, until `stop` is set.

    If the changed file cannot be loaded, the old rubric stays, and the error is published.
    """
    from watchfiles import watch

    published = folder.read_rubric()
    file = published.file
    if file is None:  # Python code makes the rubric
        return
    last_text = published.text  # the last text that was read, even if it could not be loaded
    may_have_changed = True  # it may have changed before it was watched
    # Watch the folder and not the file, since most editors replace the file by another. The loop
    # also runs after every timeout, without changes, for a file that could not be read before.
    for changes in watch(
        file.parent,
        watch_filter=None,
        recursive=False,
        step=50,
        debounce=400,
        rust_timeout=500,
        yield_on_timeout=True,
        stop_event=stop,
        raise_interrupt=False,
    ):
        if changes:
            may_have_changed = True
        if not may_have_changed or _is_being_written(file):
            continue
        try:
            text = file.read_bytes()
        except OSError:
            continue  # many editors move the file away before they write the new one
        may_have_changed = False
        if text != last_text:
            last_text = text
            published = _try_to_load(text, published, loader)
            folder.publish_rubric(published)


def _try_to_load(text: bytes, published: PublishedRubric, loader: RubricLoader) -> PublishedRubric:
    """Return what to publish now that the rubric file has this text.

    That is the new rubric, or the one that was published before with the reason why the new one
    cannot be loaded.
    """
    if text == published.text:  # the file could not be loaded, and has its old content again
        changed = msgspec.structs.replace(published, error="")
    else:
        changed = msgspec.structs.replace(
            published, text=text, reloads=published.reloads + 1, error=""
        )
    try:
        loader.load(changed)
    except Exception as error:  # noqa: BLE001 - a rubric file may run any code
        message = describe_load_error(error)
        logger.error("the rubric file changed and cannot be used: %s", message)
        return msgspec.structs.replace(published, failures=published.failures + 1, error=message)
    if text != published.text:
        logger.warning("the rubric file changed: the new rubric is served")
    return changed


def _is_being_written(path: Path) -> bool:
    """Return True if a process has the file open for writing; always False except on Linux.

    Linux refuses a read lease (a lock that ends when the file is opened for writing) on such a file.
    """
    fcntl: Any = import_module("fcntl")  # Any, because other systems do not have all of its names
    if not hasattr(fcntl, "F_SETLEASE"):
        return False
    try:
        with path.open("rb") as file:
            # If another process opens the file while this one has the lease, this one gets a signal.
            # The default signal, SIGIO, would end it; SIGURG is ignored.
            fcntl.fcntl(file, fcntl.F_SETSIG, signal.SIGURG)
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as error:
        return error.errno == errno.EAGAIN  # the lease was refused
    return False
