"""Landlock: how a process on Linux gives up the right to change files outside one folder."""

import os
import struct
from typing import Final

from assay.tools.system import asked

_CREATE, _ADD, _RESTRICT = 444, 445, 446
"""The numbers of its three calls, on every machine."""
_WRITE, _TRUNCATE = 1 << 1, 1 << 14
_CHANGES: Final = _WRITE | sum(1 << right for right in range(4, 13))
"""The rights to write, to remove, and to make files of all kinds."""
_CHANGES_SINCE: Final = {2: 1 << 13, 3: _TRUNCATE}
"""More of them, by the version that brought them: to link elsewhere, to cut short."""
_SCOPES, _SCOPES_SINCE = 0b11, 6
"""Signals, and local sockets without a path, reach nobody outside; by version too."""


def write_only_in(folder: str) -> None:
    """Change no file outside a folder, and see into no process that may.

    This holds for good, and for every process that is started from now on.
    """
    version = asked("syscall", _CREATE, 0, 0, 1)
    changes = _CHANGES | sum(r for since, r in _CHANGES_SINCE.items() if version >= since)
    has_scopes = version >= _SCOPES_SINCE
    rules = struct.pack("QQQ", changes, 0, _SCOPES) if has_scopes else struct.pack("Q", changes)
    ruleset = asked("syscall", _CREATE, rules, len(rules), 0)
    try:
        _allow(ruleset, folder, changes)
        _allow(ruleset, os.devnull, changes & (_WRITE | _TRUNCATE))
        asked("syscall", _RESTRICT, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        asked("syscall", _ADD, ruleset, 1, struct.pack("=Qi", rights, place), 0)
    finally:
        os.close(place)
