"""Write the pages of the site that come from elsewhere, and a Markdown copy of every page beside it.

mkdocs calls the functions named `on_…` (see `hooks` in mkdocs.yml). README, changelog and benchmark results are shown as they
stand; the reference is made from `--help` and from the public names of each package; the decisions are listed from the folder.
"""

import importlib
import inspect
import os
import re
from pathlib import Path
from typing import Any

import click
import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation, Section
from mkdocs.structure.pages import Page

import assay.errors
from assay.cli.root import root

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

ELSEWHERE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "benchmarks/RESULTS.md": "benchmarks/results.md",
    "benchmarks/README.md": "benchmarks/method.md",
}
"""Files outside docs/ that are pages of the site."""

API = {
    "assay": "Rubrics, criteria, reports",
    "assay.graders": "Graders",
    "assay.models": "Models",
    "assay.parsers": "Parsers",
    "assay.checks": "Checks",
    "assay.presets": "Presets",
    "assay.math": "Mathematics",
    "assay.envs": "Environments",
    "assay.runs": "Runs",
    "assay.tables": "Tables",
    "assay.trust": "Trust",
    "assay.lint": "Lint",
    "assay.probe": "Probe",
    "assay.suggest": "Suggest",
    "assay.integrations": "Trainers and pytest",
    "assay.server": "Reward server",
    "assay.backends": "Backends",
    "assay.cache": "Verdict cache",
    "assay.isolation": "Isolation",
    "assay.tools": "Tools",
    "assay.testing": "Testing",
}
"""Packages whose public names have a page each, and its title."""

_LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")
_INHERITED = {
    "from_file",
    "from_yaml",
    "from_json",
    "from_toml",
    "from_dict",
    "to_dict",
    "to_yaml",
    "to_json",
}
_CODE = re.compile(r"`[^`\n]+`")
_markdown: dict[str, str] = {}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages of the API and of the decisions into the navigation."""
    api: list[Any] = [{title: _api_page(package)} for package, title in API.items()]
    decisions: list[Any] = [
        "decisions/index.md",
        *(f"decisions/{path.name}" for path in _decisions()),
    ]
    config.nav = _filled(config.nav, {"Python": api, "Decisions": decisions})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that no file in docs/ holds."""
    pages = {page: (ROOT / path).read_text(encoding="utf-8") for path, page in ELSEWHERE.items()}
    pages["reference/commands.md"] = _commands()
    pages["decisions/index.md"] = _decision_list()
    pages |= {_api_page(package): _api(package) for package in API}
    for page, text in pages.items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links to files of the repository into links to their pages, and keep the text for the Markdown copy."""
    uri = page.file.src_uri
    if "/" not in uri:  # a page by itself: there is no navigation to show beside it
        page.meta["hide"] = ["navigation"]
    if uri.startswith(("how-to/", "tutorial")):
        page.meta["search"] = {"boost": 2}
    elif uri.startswith(("decisions/", "changelog", "benchmarks/")):  # found where nothing else is
        page.meta["search"] = {"boost": 0.3}
    source = next((path for path, target in ELSEWHERE.items() if target == uri), f"docs/{uri}")

    def moved(link: re.Match[str]) -> str:
        start, target, anchor, end = link.groups()
        if "://" in target:
            return link[0]
        path = os.path.normpath(os.path.join(os.path.dirname(source), target))  # noqa: PTH118, PTH120
        place = ELSEWHERE.get(path, path.removeprefix("docs/"))
        if path == "docs/decisions":
            place = "decisions/index.md"
        return f"{start}{os.path.relpath(place, os.path.dirname(uri) or '.')}{anchor or ''}{end}"  # noqa: PTH120

    text = _LINK.sub(moved, markdown)
    _markdown[uri] = text
    # In a table GitHub wants a bar inside code escaped, and Python-Markdown shows the backslash.
    return re.sub(
        r"^\|.*$",
        lambda row: _CODE.sub(lambda code: code[0].replace(r"\|", "|"), row[0]),
        text,
        flags=re.M,
    )


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> Navigation:
    """Remember the navigation, which is the order of llms.txt."""
    config.extra["sections"] = nav.items
    return nav


def on_post_build(config: MkDocsConfig) -> None:
    """Write every page as Markdown beside its HTML, and llms.txt, which lists them."""
    site = Path(config.site_dir)
    extensions = griffe.load_extensions(str(Path(__file__).parent / "extensions.py"))
    package = griffe.load(
        "assay", search_paths=[str(ROOT / "src")], resolve_aliases=True, extensions=extensions
    )
    for uri, text in _markdown.items():
        path = site / uri
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            re.sub(r"^::: ([\w.]+)$", lambda name: _described(package, name[1]), text, flags=re.M)
        )
    lines = [f"# {config.site_name}", "", f"> {config.site_description}", ""]
    for item in config.extra.pop("sections"):
        lines += _listed(item, 2)
    (site / "llms.txt").write_text(
        re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n", encoding="utf-8"
    )


def _filled(nav: Any, given: dict[str, list[Any]]) -> Any:
    """The navigation, with the entries of these names replaced."""
    if isinstance(nav, list):
        return [_filled(item, given) for item in nav]
    if isinstance(nav, dict):
        return {key: given.get(key, _filled(value, given)) for key, value in nav.items()}
    return nav


def _commands() -> str:
    """Every command and subcommand, with the text and the options that its `--help` prints."""
    parts = [
        "# Commands and options",
        "",
        "This page lists what each command prints with `--help`.",
        "",
    ]
    for path, command in [*_walk(root, ())][1:]:
        title = " ".join(("assay", *path))
        context = command.context_class(command, info_name=title)
        texts = [inspect.cleandoc(text) for text in (command.help, command.epilog) if text]
        records = [param.get_help_record(context) for param in command.get_params(context)]
        options = [
            (names, told) for names, told in filter(None, records) if told and "--help" not in names
        ]
        usage = command.get_usage(context).removeprefix("Usage: ")
        parts += [f"{'#' * (len(path) + 1)} {title}", "", "```text", usage, "```", "", texts[0], ""]
        if isinstance(command, click.Group):
            parts += [
                f"- [`{title} {name}`](#{title.replace(' ', '-')}-{name})"
                for name in command.list_commands(context)
            ]
        parts += ["", "| option | meaning |", "|---|---|"] if options else []
        parts += [f"| `{_cell(names)}` | {_cell(meaning)} |" for names, meaning in options]
        parts += ["", *texts[1:], ""]
        if example := getattr(command, "example", ""):
            parts += ["```sh", inspect.cleandoc(example), "```", ""]
    return "\n".join(parts)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _walk(command: click.Command, path: tuple[str, ...]) -> Any:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found is not None:
                yield from _walk(found, (*path, name))


def _decisions() -> list[Path]:
    return sorted(path for path in (DOCS / "decisions").glob("[0-9]*.md"))


def _title(path: Path) -> str:
    return path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


def _decision_list() -> str:
    listed = [f"- [{_title(path)}]({path.name})" for path in _decisions()]
    return "\n".join(
        [
            "# Decisions",
            "",
            "Each page says what was decided, why, and what else was considered.",
            "",
            *listed,
            "",
        ]
    )


def _api_page(package: str) -> str:
    return f"reference/api/{package.rpartition('.')[2]}.md"


def _api(package: str) -> str:
    """A page of the public names of a package, each rendered from its docstring."""
    module = importlib.import_module(package)
    others = (
        {name for other in API if other != "assay" for name in _public(other)}
        if package == "assay"
        else set[str]()
    )
    told = inspect.cleandoc(module.__doc__ or "").split("\n\n")
    summary = "\n\n".join(
        text for text in told if "  " not in text
    )  # without the list of its modules
    parts = [f"# {API[package]}: `{package}`", "", summary, ""]
    for name in _public(package):
        if name not in others:
            parts += [f"::: {package}.{name}", ""]
    return "\n".join(parts)


def _public(package: str) -> list[str]:
    module = importlib.import_module(package)
    names: list[str] = getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "").startswith(package)
    ]
    kept = [name for name in names if not name.startswith("_") and f"{package}.{name}" not in API]
    errors = {name for name in kept if name.endswith("Error") or hasattr(assay.errors, name)}
    return sorted(kept, key=lambda name: (name in errors, name.isupper(), name[0].islower(), name))


def _described(package: Any, path: str) -> str:
    """A public name as Markdown: its signature, its docstring and those of its methods and fields."""
    found = package[path.removeprefix("assay.")]
    found = found.final_target if found.is_alias else found
    lines = [f"## {found.name}", "", *_body(found)]
    if found.is_class:
        for member in found.all_members.values():
            if member.is_alias and member.name not in _INHERITED:
                continue
            member = member.final_target if member.is_alias else member
            if member.docstring and not member.name.startswith("_"):
                lines += [f"### {found.name}.{member.name}", "", *_body(member)]
    return "\n".join(lines).rstrip()


def _body(found: Any) -> list[str]:
    if found.is_function:
        signature = str(found.signature())
    elif found.is_class:
        taken = ", ".join(
            _parameter(parameter) for parameter in found.parameters if parameter.name != "self"
        )
        signature = f"class {found.name}({taken})" if taken else f"class {found.name}"
    else:
        annotation = f": {found.annotation}" if getattr(found, "annotation", None) else ""
        signature = f"{found.name}{annotation}"
    text = found.docstring.value if found.docstring else ""
    return ["```python", signature, "```", "", text, ""]


def _parameter(parameter: Any) -> str:
    stars = {"variadic positional": "*", "variadic keyword": "**"}.get(parameter.kind.value, "")
    annotation = f": {parameter.annotation}" if parameter.annotation else ""
    return f"{stars}{parameter.name}{annotation}" + (
        f" = {parameter.default}" if parameter.default and not stars else ""
    )


def _listed(item: Any, level: int) -> list[str]:
    """An entry of the navigation for llms.txt: a heading and its pages, or one page with its first sentence."""
    if isinstance(item, Section):
        lines = ["", f"{'#' * level} {item.title}", ""]
        for child in item.children:
            lines += _listed(child, level + 1)
        return [*lines, ""]
    uri = item.file.src_uri
    return [f"- [{item.title}]({uri}): {_first_sentence(_markdown[uri])}".rstrip(": ")]


def _first_sentence(markdown: str) -> str:
    """The first sentence of the first paragraph, without links and images."""
    for block in re.sub(r"^```.*?^```$", "", markdown, flags=re.M | re.S).split("\n\n")[1:]:
        text = " ".join(block.split())
        if text and text[0] not in "#|`!<-:":
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
            return re.split(r"(?<=[.:]) ", text)[0].rstrip(":")
    return ""
