"""MkDocs hooks: pages from files outside docs/, their links, and formulas without JavaScript.

The Markdown files link to files of the repository, so that they can be read there. On the site, a
link to a module leads to its API page, and a link to another file to a page with its text.
"""

import contextlib
import html
import io
import logging
import os
import pathlib
import posixpath
import re

from latex2mathml.converter import convert
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File
from mkdocs_jupyter.plugin import NotebookFile
from mkdocs_jupyter.utils import slugify

from tf_transformer.cli.main import COMMANDS, main

ROOT = pathlib.Path(__file__).parents[2]
REPOSITORY = os.environ.get("GITHUB_REPOSITORY")  # owner/name; set in a workflow of GitHub
log = logging.getLogger("mkdocs.plugins.hooks")  # a warning fails a strict build

# File of the repository -> page of the site.
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "LICENSE": "license.md",
    "benchmarks/README.md": "benchmarks.md",
    "deploy/README.md": "guides/deployment.md",
    "notebooks/README.md": "course/index.md",
    **{
        f"tf_transformer/checkpoints/built_in/{name}/README.md": f"guides/{name}.md"
        for name in ("tatoeba-en-de", "tatoeba-de-en", "tatoeba-en-es", "pocket-en-de")
    },
    "notebooks/GLOSSARY.md": "course/glossary.md",
    "notebooks/SLIDES.md": "course/slides.md",
    "notebooks/TUTOR.md": "course/tutor.md",
    "notebooks/data/README.md": "course/sentence_pairs.md",
    "notebooks/transformer.html": "course/transformer.html",
}
# Files of the repository that have a page with their text.
SOURCES = [
    "Makefile", "setup.py", "pyproject.toml", ".ci/run", "tests/**/*.py", "benchmarks/**/*.py",
    "deploy/[!R]*.*", "deploy/Dockerfile", "deploy/nginx/*", "deploy/kubernetes/*",
    "notebooks/**/*.py", "tools/**/*.py",
]  # fmt: skip
SCRIPT = re.compile(r"<script[^>]*>(?:(?!</script>).)*(?:mathjax|mermaid).*?</script>", re.S | re.I)
LINK = re.compile(r"(?<=\]\()([^)\s#]+)(#[^)\s]*)?(?=\))")
HREF = re.compile(r'(?<=<a href=")([^"#:]*)(#[^"]+)?(?=")')
FORMULA = re.compile(r"\$\$(.+?)\$\$|(?<![\\$\w])\$([^$\n]+?)\$(?!\w)", re.S)
NOT_TEXT = re.compile(r"(<pre.*?</pre>|<code.*?</code>|<script.*?</script>|<[^>]*>)", re.S)


def page_of(path):
    """The page of a file of the repository, and the anchor of a module on its page, or ""."""
    if path in PAGES:
        return PAGES[path], ""
    if path.startswith("docs/"):
        return path.removeprefix("docs/"), ""
    if path.endswith(".ipynb"):
        return path.replace("notebooks/", "course/", 1), ""
    parts = pathlib.PurePosixPath(path).with_suffix("").parts
    if parts[0] == "tf_transformer" and path.endswith(".py"):
        page = parts[1] if len(parts) > 2 else "settings"
        return f"api/{page}.md", "#" + ".".join(parts).removesuffix(".__init__")
    return f"source/{path}.md", ""


@event_priority(-100)  # after mkdocs-jupyter, which would lose the paths of notebooks outside docs/
def on_files(files, config):
    """Adds the pages whose text is outside docs/."""
    for path, page in PAGES.items():
        if not page.endswith(".ipynb") and path not in ("README.md", "LICENSE"):
            files.append(File.generated(config, page, abs_src_path=str(ROOT / path)))
    text = (ROOT / "LICENSE").read_text("utf-8")
    files.append(File.generated(config, "license.md", content=f"# License\n\n```text\n{text}```\n"))
    files.append(File.generated(config, "commands.md", content=commands_page()))
    folder = ROOT / "notebooks"
    for path in sorted(folder.glob("*.ipynb")):
        file = File.generated(config, f"course/{path.name}", abs_src_path=str(path))
        notebook = NotebookFile(file, **config)
        notebook.abs_src_path = str(path)
        files.append(notebook)
    for path in sorted(path for pattern in SOURCES for path in ROOT.glob(pattern)):
        name = path.relative_to(ROOT).as_posix()
        files.append(File.generated(config, page_of(name)[0], content=source_page(path, name)))
    return files


def commands_page():
    """A page with the help text of each command."""
    parts = [f"# Command line\n\n```text\n{help_text()}```\n"]
    parts += [f"## {name}\n\n```text\n{help_text(name)}```\n" for name in COMMANDS]
    return "\n".join(parts)


def help_text(*command):
    """What `tf-transformer COMMAND --help` prints."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        main([*command, "--help"])
    return out.getvalue()


def source_page(path, name):
    """A page with the text of a file."""
    kinds = {
        "Makefile": "make", "run": "bash", "Dockerfile": "docker", ".service": "ini",
        ".conf": "nginx",
    }  # fmt: skip
    kind = kinds.get(path.suffix or path.name, path.suffix.removeprefix("."))
    front = "---\nsearch:\n  exclude: true\nhide: [toc]\n---\n"
    return f"{front}# {name}\n\n````{kind}\n{path.read_text('utf-8')}````\n"


def repository_path(target, page):
    """The file that a relative link of a page means, relative to the repository."""
    source = page.file.abs_src_path
    if not source:
        return ""
    folder = pathlib.Path(source).parent.relative_to(ROOT).as_posix()
    return posixpath.normpath(posixpath.join(folder, target))


def on_page_markdown(markdown, page, config, files):
    """Links to files of the repository become links to pages."""

    def replace(match):
        target, anchor = match[1], match[2] or ""
        path = repository_path(target, page)
        if "://" in target or not path or not (ROOT / path).exists():
            return match[0]
        uri, module = page_of(path)
        if uri.endswith(".ipynb"):
            anchor = lower_anchor(anchor)
        folder = posixpath.dirname(page.file.src_uri)
        return posixpath.relpath(uri, folder or ".") + (anchor or module)

    return LINK.sub(replace, markdown)


def lower_anchor(anchor):
    """Jupyter's anchor `#Why-the-scale` as mkdocs-jupyter writes it: `#why-the-scale`."""
    return f"#{slugify(anchor)}" if anchor else ""


@event_priority(-100)  # after the pages are rendered
def on_page_content(content, page, config, files):
    """Notebooks: a button for Colab, links become links to pages, formulas become MathML."""
    if not page.file.src_uri.endswith(".ipynb"):
        return content
    pieces = NOT_TEXT.split(SCRIPT.sub("", content))  # those scripts come from other hosts
    pieces = [piece if piece.startswith("<") else FORMULA.sub(mathml, piece) for piece in pieces]

    def replace(match):
        path, anchor = match[1], match[2] or ""
        if not path:
            return lower_anchor(anchor)
        uri, module = page_of(repository_path(path, page))
        target = files.get_file_from_path(uri)
        if target is None:
            log.warning("%s: no page for the link %s", page.file.src_uri, match[0])
            return match[0]
        if uri.endswith(".ipynb"):
            anchor = lower_anchor(anchor)
        return target.url_relative_to(page.file) + (anchor or module)

    return colab_button(page) + HREF.sub(replace, "".join(pieces))


def colab_button(page):
    """A button that opens a notebook in Colab, and the cell to run first there, or ""."""
    if not REPOSITORY:
        return ""
    name = posixpath.basename(page.file.src_uri)
    url = f"https://colab.research.google.com/github/{REPOSITORY}/blob/main/notebooks/{name}"
    course = (ROOT / "notebooks" / "README.md").read_text("utf-8")
    (cell,) = re.findall(r"^!git clone .+$", course, re.M)
    cell = cell.replace("ADDRESS", f"https://github.com/{REPOSITORY}")
    return (
        f'<p><a class="md-button" href="{url}">Open in Colab</a> Run this cell first there:</p>\n'
        f"<pre><code>{html.escape(cell)}</code></pre>\n"
    )


def mathml(match):
    """The MathML of a formula between dollars."""
    display = "block" if match[1] else "inline"
    return convert(html.unescape(match[1] or match[2]).strip(), display=display)
