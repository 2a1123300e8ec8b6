"""Launchers: the one in use, the one about to take over, and those whose workers have yet to end."""

import math
import selectors
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from assay.isolation import launch, template
from assay.isolation.launch import Launcher, News
from assay.isolation.settings import Settings
from assay.redaction import logger_of
from assay.wording import described

logger = logger_of("assay")

READY: Final = 300.0
"""Seconds that a launcher may take until it is ready, imports and all."""
STARTS: Final = 3
"""How often in a row a launcher may fail to start before nobody waits for it any more."""


class Launchers:
    """Sees that there is a launcher with the modules that are wanted. For the pool's thread alone."""

    def __init__(
        self,
        selector: selectors.BaseSelector,
        *,
        tell: Callable[[News], None],
        took_over: Callable[[Launcher], None],
        died: Callable[[Launcher], None],
    ) -> None:
        self.current: Launcher | None = None
        """Where workers come from; None until there is one."""
        self.trouble = ""
        """Why none can be started, when that is so."""
        self.due = math.inf
        """When the one on its way will be given up."""
        self._coming: Launcher | None = None
        self._former: list[Launcher] = []
        self._started_with: Settings | None = None
        self._failures = 0
        self._selector = selector
        self._tell = tell
        self._took_over = took_over
        self._died = died

    def ensure(self, settings: Settings) -> None:
        """Start a launcher unless there is one with these settings, or one on its way."""
        if self._coming is not None:
            return
        if self.current is not None and self._started_with == settings:
            return
        self._started_with = settings
        try:
            coming = launch.Template(settings) if launch.FORKS else launch.Spawner(settings)
        except OSError as error:
            self._failed(described(error), STARTS)
            return
        self._coming = coming
        self.due = time.monotonic() + READY
        self._selector.register(coming.control, selectors.EVENT_READ, partial(self._hear, coming))

    def look(self, now: float) -> None:
        """Give up the one on its way when that takes too long."""
        if now >= self.due and self._coming is not None:
            launcher, self._coming = self._coming, None
            self.due = math.inf
            self._drop(launcher)
            self._failed(f"TimeoutError: it was not ready within {READY:g} s", STARTS)

    def close(self) -> None:
        for launcher in self._all():
            launcher.close()

    def disown(self) -> None:
        for launcher in self._all():
            launcher.disown()

    def _all(self) -> list[Launcher]:
        return [each for each in (self.current, self._coming, *self._former) if each is not None]

    def _hear(self, launcher: Launcher) -> None:
        if launcher not in self._all():
            return  # dropped a moment ago
        try:
            news = launcher.news()
        except EOFError:
            self._lost(launcher)
            return
        for each in news:
            if each.kind == template.READY:
                self._take_over(launcher)
            elif each.kind == template.WARNING:
                logger.warning("%s", each.text)
            else:
                self._tell(each)
        self._drop_former()

    def _take_over(self, launcher: Launcher) -> None:
        if self.current is not None:
            self._former.append(self.current)
        self.current, self._coming = launcher, None
        self._failures, self.due = 0, math.inf
        self._took_over(launcher)

    def _lost(self, launcher: Launcher) -> None:
        """A launcher has ended, and its workers with it."""
        was_coming = launcher is self._coming
        if was_coming:
            self._coming, self.due = None, math.inf
        elif launcher is self.current:
            self.current = None
        else:
            self._former.remove(launcher)
        self._died(launcher)
        self._drop(launcher)
        if was_coming:
            self._failed("RuntimeError: the process ended before it was ready", 1)

    def _failed(self, why: str, tries: int) -> None:
        """Try again for some time; with a launcher that works, make do with that one."""
        if self.current is not None:
            logger.warning("workers cannot be started with other modules (%s)", why)
            return
        self._failures += tries
        if self._failures >= STARTS:
            self._failures = 0
            self.trouble = why

    def _drop_former(self) -> None:
        for launcher in [each for each in self._former if not each.alive]:
            self._former.remove(launcher)
            self._drop(launcher)

    def _drop(self, launcher: Launcher) -> None:
        self._selector.unregister(launcher.control)
        launcher.close()
