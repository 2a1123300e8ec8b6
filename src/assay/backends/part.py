"""PartSink: the rows of a shard on their way into a file, from which another attempt can go on."""

import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from assay.criterion import Criterion
from assay.runs.errors import RunError
from assay.runs.folder import Folder
from assay.runs.form import RowForm, data_of, opening_of
from assay.runs.keys import Keys
from assay.runs.lock import Lock
from assay.runs.progress import Watch
from assay.runs.reading import numbered_lines, whole_lines
from assay.runs.row import Row
from assay.runs.sink import Sink, Texts
from assay.runs.tally import Tally
