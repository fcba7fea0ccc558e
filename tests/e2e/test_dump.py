"""Dumps: every file that runs passes, every link leads somewhere, and a click leads from any side to any other."""

from __future__ import annotations

import contextlib
import html.parser
import json
import re
import shutil
import urllib.parse
from pathlib import Path
from typing import Any

import pytest
import torch

from aten_backend import cli
from aten_backend.dump.writer import Dump
from aten_backend.profiling import run_once
from dump_cases import BERT_LINES, LINES, bert, odd_programs, program
from support import ROOT, backend, python

pytestmark = pytest.mark.device

RUN_ALL = """
import contextlib, io, runpy, sys
for script in sys.argv[1:]:
    out, code = io.StringIO(), None
    with contextlib.redirect_stdout(out):
        try:
            runpy.run_path(script, run_name="__main__")
        except SystemExit as end:
            code = end.code
    if code != 0 or not out.getvalue().endswith("PASS\\n"):
        sys.exit(f"{script} ended with {code}:\\n{out.getvalue()}")
"""


def scripts(folder: Path) -> list[Path]:
    """The files of a dump that run alone."""
    return sorted(p for p in folder.rglob("*.py") if "__main__" in p.read_text())


def graph_folders(root: Path) -> list[Path]:
    return sorted(p for p in root.iterdir() if p.is_dir())


class Links(html.parser.HTMLParser):
    """The links that a page's text holds, and what it would load from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name == "href" and value:
                self.links.append(value)
            if name == "src" or (tag == "link" and name == "href"):
                self.loaded.append(value or "")


def data_of(page: Path) -> dict:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.DOTALL)
    assert found is not None
    return json.loads(found[1].replace("<\\/", "</"))


@pytest.fixture(scope="module")
def dumped(tmp_path_factory):
    """The dump of a program whose lines are known, forward and backward."""
    folder = tmp_path_factory.mktemp("dump")
    target = program(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        assert cli.main(["dump", f"{target}:case", "--out", str(folder / "out")]) == 0
    return folder / "out"


def test_every_stage_is_there(dumped):
    forward, backward = graph_folders(dumped)
    assert (forward.name, backward.name) == ("000_forward", "001_backward")
    for folder in (forward, backward):
        names = {p.name for p in folder.iterdir()}
        assert names >= {
            "00_dynamo.py", "01_joint.py", "03_passes.py", "04_classify.txt", "05_partition.txt", "06_group_ir.txt",
            "07_split.txt", "08_schedule.txt", "09_kernels.txt", "10_plan.py", "11_buffers.txt", "12_timings.txt",
            "13_link.txt", "14_environment.txt", "14_options.txt", "binaries", "index.html", "inputs.pt", "kernels",
        }  # fmt: skip
        kinds = {p.suffix for p in (folder / "binaries").iterdir()}
        assert kinds == {".ll", ".spv", ".spvasm"}
        assert all((folder / "binaries" / f"{p.stem[4:]}.spv").exists() for p in (folder / "kernels").glob("*.py"))
    assert (
        "torch.nn.functional.gelu" in (forward / "00_dynamo.py").read_text()
        or "gelu" in (forward / "00_dynamo.py").read_text()
    )
    assert "tangents_1" in (forward / "01_joint.py").read_text()
    assert "def call(args)" in (forward / "10_plan.py").read_text()
    assert "at once" in (forward / "11_buffers.txt").read_text()
    assert "compile" in (forward / "12_timings.txt").read_text()


def test_every_script_runs_and_passes(dumped):
    found = scripts(dumped)
    assert len(found) == 8 + sum(len(list(f.glob("kernels/*.py"))) for f in graph_folders(dumped))
    done = python(RUN_ALL, *map(str, found), env=None, cwd=ROOT)
    assert done.returncode == 0, done.stderr + done.stdout


def test_a_script_notices_a_wrong_kernel(dumped, tmp_path):
    copy = tmp_path / "forward"
    shutil.copytree(graph_folders(dumped)[0], copy)
    (script,) = [p for p in copy.glob("kernels/*.py") if "erf(" in p.read_text()]
    text = script.read_text()
    script.write_text(text.replace("erf(", "tanh(", 1))
    done = python(RUN_ALL, str(script), cwd=ROOT)
    assert done.returncode == 1 and "FAIL" in done.stderr


def check_links(root, pages):
    """Every link of the dump's pages leads to a file, and nothing is loaded from elsewhere."""
    found = sorted(root.rglob("index.html"))
    assert len(found) == pages
    for page in found:
        parser = Links()
        parser.feed(page.read_text())
        assert not parser.loaded
        links = list(parser.links)
        if page.parent != root:
            data = data_of(page)
            links += [*data["files"], *(s["script"] for s in data["steps"] if s["script"]), "../index.html"]
        assert links
        for link in links:
            assert (page.parent / urllib.parse.unquote(link)).exists(), link


def test_every_link_leads_somewhere(dumped):
    check_links(dumped, 3)


def test_kernel_lines_know_their_line(dumped):
    data = data_of(dumped / "000_forward" / "index.html")
    nodes = {n["name"]: n for n in data["nodes"]}
    for word in ("erf", "sigmoid"):
        lines = {
            data["lines"][nodes[name]["line"]][1]
            for step in data["steps"]
            for launch in step["launches"]
            for text, origin in zip(data["kernels"][launch["kernel"]], launch["origins"], strict=True)
            if ("exp(" if word == "sigmoid" else f"{word}(") in text
            for name in origin
        }
        assert lines == {LINES[word]}


# ---- in a browser
# ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser():
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("there is no Chromium to open a page with")
    with api.sync_playwright() as play:
        opened = play.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()


@contextlib.contextmanager
def opened(browser, file, width=1400, height=900):
    """A page, opened from disk; fails on any error in its script and on anything that it loads from elsewhere."""
    page = browser.new_page(viewport={"width": width, "height": height})
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda r: errors.append(r.url) if not r.url.startswith("file:") else None)
    page.goto(file.as_uri())
    yield page
    page.close()
    assert not errors


@pytest.fixture(params=[(1400, 900), (390, 844)], ids=["desktop", "phone"])
def page(request, browser, dumped):
    """The forward graph's page."""
    with opened(browser, dumped / "000_forward" / "index.html", *request.param) as found:
        yield found


def show(page, name):
    tab = page.locator(f"#tabs button[data-pane={name}]")
    if tab.is_visible():
        tab.click()


def picked(page, name, attribute):
    return page.locator(f"#pane-{name} .picked[{attribute}]").evaluate_all(
        "(found, name) => found.map(e => e.getAttribute(name))", attribute
    )


def test_a_kernel_line_leads_to_the_users_line(page, dumped):
    show(page, "graph")
    page.locator("#pane-graph .box.kernel .title").first.click()
    show(page, "kernel")
    for text, line in (("erf(", LINES["erf"]), ("exp(", LINES["sigmoid"])):
        page.locator("#pane-kernel [data-kernel-line]", has_text=text).first.click()
        (place,) = picked(page, "program", "data-line")
        assert place.endswith(f"program.py:{line}")
        assert picked(page, "aten", "data-node")


def test_a_users_line_leads_to_the_kernel_lines(page):
    show(page, "program")
    page.locator(f"#pane-program [data-line$='program.py:{LINES['erf']}']").click()
    assert set(picked(page, "aten", "data-node")) >= {"gelu"}
    assert page.locator("#pane-graph .box.kernel.chosen").count() == 1
    texts = page.locator("#pane-kernel .picked").all_inner_texts()
    assert any("erf(" in t for t in texts) and not any("exp(" in t for t in texts)


def test_an_op_of_aten_leads_to_its_box_and_line(page):
    show(page, "aten")
    page.locator("#pane-aten [data-node=mm]").click()
    (place,) = picked(page, "program", "data-line")
    assert place.endswith(f"program.py:{LINES['mm']}")
    assert page.locator("#pane-graph .box.aten.chosen").count() == 1
    assert "tuned library call" in page.locator("#pane-kernel").text_content()


def test_launches_are_on_the_timeline(page):
    show(page, "time")
    bar = page.locator("#pane-time rect.kernel[data-step]").last
    step = bar.get_attribute("data-step")
    bar.dispatch_event("click")
    assert page.locator(f"#pane-graph .box.chosen[data-step='{step}']").count() == 1


def test_nothing_is_wider_than_the_screen(page):
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


# ---- where compiling goes wrong, and how it is watched
# ------------------------------------------------------------------


def test_the_stage_that_failed_is_there(tmp_path, monkeypatch):
    def broken(*args):
        raise RuntimeError("planted")

    monkeypatch.setattr("aten_backend.pipeline.make_plan", broken)
    compiled = torch.compile(lambda x: x.sin() + 1, backend=backend(), options={"dump_dir": str(tmp_path)})
    with pytest.raises(Exception, match="planted"):
        compiled(torch.randn(8))
    (folder,) = graph_folders(tmp_path)
    assert "RuntimeError: planted" in (folder / "FAILED_plan.txt").read_text()
    assert (folder / "09_kernels.txt").exists() and not (folder / "10_plan.py").exists()
    assert data_of(folder / "index.html")["failed"] == {"stage": "plan", "error": "RuntimeError: planted"}
    assert "failed in plan" in (tmp_path / "index.html").read_text()


def test_an_attempt_before_is_kept_apart(tmp_path):
    options: Any = {"dump_dir": str(tmp_path), "fusion_fuel": 0}
    torch.compile(lambda x: x.sin() + 1, backend=backend(), options=options)(torch.randn(8))
    (folder,) = graph_folders(tmp_path)
    assert "group over" in (folder / "attempt1" / "05_partition.txt").read_text()
    assert "fusion_fuel is used up" in (folder / "05_partition.txt").read_text()
    for name in data_of(folder / "index.html")["files"]:
        assert (folder / name).exists()


def test_dynamic_shapes_have_scripts_too(tmp_path):
    options: Any = {"dump_dir": str(tmp_path)}
    compiled = torch.compile(
        lambda x: torch.softmax(x * x.shape[0], -1), backend=backend(), options=options, dynamic=True
    )
    compiled(torch.randn(6, 40))
    (folder,) = graph_folders(tmp_path)
    found = scripts(folder)
    assert any(p.parent.name == "kernels" for p in found)
    done = python(RUN_ALL, *map(str, found), cwd=ROOT)
    assert done.returncode == 0, done.stderr + done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("ir", ["aten", "prims"])
def test_odd_programs_have_scripts_that_pass(tmp_path, ir):
    for name, (fn, args, dynamic) in odd_programs().items():
        torch._dynamo.reset()
        options: Any = {"dump_dir": str(tmp_path / name.replace(" ", "_")), "ir": ir}
        compiled = torch.compile(fn, backend=backend(), options=options, dynamic=dynamic)
        compiled(*(a.clone() if isinstance(a, torch.Tensor) else a for a in args))
    found = scripts(tmp_path)
    readable = [p for p in tmp_path.rglob("*.py") if p not in found and p.name != "10_plan.py"]
    assert not readable, "every graph and every kernel is a script"
    done = python(RUN_ALL, *map(str, found), cwd=ROOT, timeout=600)
    assert done.returncode == 0, done.stderr + done.stdout


def test_later_calls_are_the_plans_own(tmp_path):
    seen = []
    plain = Dump.watch

    def watch(self, graph):
        seen.append(graph)
        return plain(self, graph)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Dump, "watch", watch)
        compiled = torch.compile(lambda x: x.sin() + 1, backend=backend(), options={"dump_dir": str(tmp_path)})
        x = torch.randn(8)
        for _ in range(5):
            torch.testing.assert_close(compiled(x), x.sin() + 1)
    (graph,) = seen
    assert "around" not in graph.run.__code__.co_names
    (folder,) = graph_folders(tmp_path)
    assert data_of(folder / "index.html")["runs"] == 3


# ---- a BERT in training
# ------------------------------------------------------------------


@pytest.fixture(scope="module")
def bert_dumped(tmp_path_factory):
    """The dump of two steps."""
    folder = tmp_path_factory.mktemp("bert")
    step, args = bert()
    torch._dynamo.reset()
    compiled = torch.compile(step, backend=backend(), options={"dump_dir": str(folder)})
    for _ in range(2):
        run_once(compiled, args)
    return folder


@pytest.mark.slow
@pytest.mark.models
def test_scripts_of_bert_pass(bert_dumped):
    folders = graph_folders(bert_dumped)
    assert [f.name.partition("_")[2] for f in folders] == ["forward", "backward"]
    found = scripts(bert_dumped)
    assert len(found) > 20
    done = python(RUN_ALL, *map(str, found), cwd=ROOT, timeout=900)
    assert done.returncode == 0, done.stderr + done.stdout


@pytest.mark.slow
@pytest.mark.models
def test_page_of_bert_leads_from_kernel_lines_to_the_users(bert_dumped, browser):
    check_links(bert_dumped, 3)
    for kind, folder in zip(("forward", "backward"), graph_folders(bert_dumped), strict=True):
        data = data_of(folder / "index.html")
        with opened(browser, bert_dumped / "index.html") as page:
            page.get_by_role("link", name=kind).first.click()
            assert page.url == (folder / "index.html").as_uri()
            for word, (file, line) in BERT_LINES[kind].items():
                kernels = {name for name, text in data["kernels"].items() if any(word in t for t in text)}
                steps = [n for n, s in enumerate(data["steps"]) if kernels & {k["kernel"] for k in s["launches"]}]
                assert steps, word
                for step in steps:
                    page.locator(f"#pane-graph .box[data-step='{step}'] .title").dispatch_event("click")
                    page.locator("#pane-kernel [data-kernel-line]", has_text=word).first.click()
                    assert (file, line) in {_source(place) for place in picked(page, "program", "data-line")}


def _source(place):
    """The file's name and the text at a place that the page shows as path:number."""
    path, _, number = place.rpartition(":")
    return Path(path).name, Path(path).read_text().splitlines()[int(number) - 1].strip()
