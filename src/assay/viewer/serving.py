"""serve_page: the page of some runs on 127.0.0.1, until somebody stops it."""

import socket
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path

from assay.errors import AssayError, MissingExtraError
from assay.viewer.shelf import Shelf, cache_folder

HOST = "127.0.0.1"


def serve_page(
    paths: Sequence[str | Path],
    *,
    port: int = 0,
    browser: bool = False,
    told: Callable[[str], object] = print,
) -> None:
    """Serve the page of these runs; `told` gets its address once it can be opened.

    `port` 0 takes one that is free. `browser` opens the address in the browser of this machine.
    """
    try:
        import uvicorn

        from assay.viewer.app import viewer_app
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in ("starlette", "uvicorn"):
            raise
        raise MissingExtraError("The page of a run", package=package, extra="server") from None
    listening = _listening(port)
    address = f"http://{HOST}:{listening.getsockname()[1]}/"
    config = uvicorn.Config(viewer_app(Shelf(paths, cache_folder())), log_level="warning")
    server = uvicorn.Server(config)
    # The socket listens already, so whoever opens the address now is served in a moment.
    told(address)
    if browser:
        webbrowser.open(address)
    try:
        server.run(sockets=[listening])
    finally:
        listening.close()


def _listening(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise AssayError(f"port {port} cannot be had ({error.strerror}): give another") from None
    return listening
