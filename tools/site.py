"""
Build the site into ./site: zensical makes the HTML, and this adds what programs read.

    python tools/site.py            build
    python tools/site.py --serve    build, then serve it at http://127.0.0.1:8002 until Ctrl-C

The pages of docs, and those that the project itself describes (tests/support/generated_pages.py), are put together in
./.site-docs. Beside each page of the site lies its Markdown: calls.html, calls.md. llms.txt lists all pages, one a
line. A page may link to files outside of docs, such as examples: these are copied into the site. Nothing of this needs
a site's address.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from inspect import Parameter, getattr_static, getdoc, isclass, isroutine, signature
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "site"
#: As deep as docs, so that links out of it lead to the same files.
DOCS = ROOT / ".site-docs"

sys.path[:0] = [str(ROOT), str(ROOT / "src"), str(ROOT / "testkit" / "src")]

#: What leads up and out of the folder of a page, in HTML and in Markdown.
_UPWARDS = re.compile(r'((?:href="|\]\())((?:\.\./)+[^"#)\s]*)')
_API = re.compile(r"^::: (\S+)\n(?:    .*\n)*", re.MULTILINE)
#: Pictures below the first screens wait until they are near, and a box of a checklist says what it is.
_BETTER = {
    "<img alt=": '<img loading="lazy" alt=',
    '<input type="checkbox" disabled': '<input type="checkbox" aria-label="to do" disabled',
}
#: A default that is longer, such as a whole profile, is cut.
_LONGEST_DEFAULT = 40


def build() -> None:
    """Build the site anew; exit if a page or a link is not as it should be."""
    _put_together()
    built = subprocess.run([sys.executable, "-m", "zensical", "build", "--strict", "--clean"], cwd=ROOT, check=False)
    if built.returncode:
        sys.exit("The site was not built.")
    for source in sorted(DOCS.rglob("*.md")):
        text = _API.sub(_documented, source.read_text(encoding="utf-8"))
        (SITE / source.relative_to(DOCS)).write_text(text, encoding="utf-8")
    for page in (*SITE.rglob("*.html"), *SITE.rglob("*.md")):
        _finish(page)
    (SITE / "llms.txt").write_text("\n".join(_list_of_pages()) + "\n", encoding="utf-8")


def _put_together() -> None:
    """Copy docs to DOCS, and write the generated pages beside them."""
    from tests.support.generated_pages import generated_pages  # It needs the paths above.

    shutil.rmtree(DOCS, ignore_errors=True)
    shutil.copytree(ROOT / "docs", DOCS)
    for name, text in generated_pages().items():
        (DOCS / name).parent.mkdir(parents=True, exist_ok=True)
        (DOCS / name).write_text(text, encoding="utf-8")


def _finish(page: Path) -> None:
    """Copy the files outside of docs that *page* links to into the site, and link to the copies; see _BETTER, too."""

    def inside(link: re.Match[str]) -> str:
        target = (page.parent / link[2]).resolve()
        if target.is_relative_to(SITE) or not target.is_relative_to(ROOT):
            return link[0]
        copy = SITE / target.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(target, copy)
        return link[1] + os.path.relpath(copy, page.parent)

    text = page.read_text(encoding="utf-8")
    changed = _UPWARDS.sub(inside, text)
    for plain, better in _BETTER.items():
        changed = changed.replace(plain, better)
    if changed != text:
        page.write_text(changed, encoding="utf-8")


def _list_of_pages() -> Iterator[str]:
    """Yield the lines of llms.txt: the pages in the order of the navigation, then those that are not in it."""
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    yield from (f"# {settings['site_name']}", "", f"> {settings['site_description']}")
    listed = set()
    for section in settings["nav"]:
        ((title, pages),) = section.items()
        yield from ("", f"## {title}", "")
        for name in _names(pages):
            listed.add(name)
            yield _line(name)
    yield from ("", "## Optional", "")
    yield from (_line(name) for name in sorted({str(each.relative_to(DOCS)) for each in DOCS.rglob("*.md")} - listed))


def _names(pages: object) -> Iterator[str]:
    if isinstance(pages, str):
        yield pages
    elif isinstance(pages, dict | list):
        for part in pages.values() if isinstance(pages, dict) else pages:
            yield from _names(part)


def _line(name: str) -> str:
    title, _, readers, *_ = (DOCS / name).read_text(encoding="utf-8").splitlines()
    about = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", readers) if readers.startswith("For ") else ""
    return f"- [{title.removeprefix('# ')}]({name}){': ' * bool(about)}{about}"


def _documented(name: re.Match[str]) -> str:
    """Return what the API page shows of an object, as Markdown."""
    module, _, attribute = name[1].rpartition(".")
    thing = getattr(import_module(module), attribute)
    parts = [f"### {attribute}", *_described(thing, attribute)]
    if isclass(thing):
        for member in dir(thing):
            found = getattr_static(thing, member)
            if member.startswith("_") or not _is_ours(thing, member):
                continue
            if isroutine(found) or isinstance(found, property):
                parts += [f"#### {attribute}.{member}", *_described(getattr(thing, member), member)]
    return "\n\n".join(parts) + "\n"


def _is_ours(kind: type, member: str) -> bool:
    home = next(each for each in kind.__mro__ if member in vars(each))
    return home.__module__.startswith("game_operator")


def _described(thing: object, name: str) -> Iterator[str]:
    if not callable(thing) and not isinstance(thing, property):
        return
    try:
        takes = signature(thing)  # type: ignore[arg-type]  # of a property it is a TypeError
    except (TypeError, ValueError):  # It does not say.
        pass
    else:
        short = takes.replace(parameters=[_shortened(each) for each in takes.parameters.values()])
        yield f"```text\n{name}{short}\n```"
    if getdoc(thing):
        yield f"```text\n{getdoc(thing)}\n```"


def _shortened(parameter: Parameter) -> Parameter:
    return parameter if len(repr(parameter.default)) < _LONGEST_DEFAULT else parameter.replace(default=...)


def serve() -> None:
    """Serve the site on this machine alone."""
    with ThreadingHTTPServer(("127.0.0.1", 8002), partial(SimpleHTTPRequestHandler, directory=SITE)) as server:
        print("http://127.0.0.1:8002 until Ctrl-C")  # noqa: T201
        server.serve_forever()


if __name__ == "__main__":
    build()
    if sys.argv[1:] == ["--serve"]:
        serve()
