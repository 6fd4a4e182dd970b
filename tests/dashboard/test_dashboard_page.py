"""The page during a run, in a real browser: what it shows is what the run's records say."""

import asyncio
import importlib.util
import io
import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import psutil
import pytest
from browser_for_tests import browser

from grafico.runs import read_run
from tests.programs import need

PROFILE = """
kind: local
pools: [{name: gpu, gpus: 2, simulated: true, slots: 3, gpu_memory_mib: 900, memory_mib: 4000, cpus: 6}]
dashboard: 0
"""
JOB = """
name: shown
graph: grafico_shown:GRAPH
cluster: two.yaml
input: {{gate: {gate}}}
"""


class Going:
    """A run that goes on in a process of its own until its gate is opened."""

    def __init__(self, folder: Path) -> None:
        self.gate = folder / "gate"
        (folder / "grafico_shown.py").write_text((Path(__file__).parent / "grafico_shown.py").read_text())
        (folder / "two.yaml").write_text(PROFILE)
        (folder / "job.yaml").write_text(JOB.format(gate=self.gate))
        leases = folder / "leases"
        leases.mkdir(mode=0o700)
        self.environment = {**os.environ, "GRAFICO_KB": str(folder / "kb"), "GRAFICO_LEASES": str(leases)}
        self.log = folder / "console.log"
        self.folder = folder
        with self.log.open("wb") as sink:
            self.process = subprocess.Popen(
                self._command("run", "job.yaml"), cwd=folder, env=self.environment, stdout=sink, stderr=sink
            )

    def _command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "grafico.cli.main", *arguments]

    def grafico(self, *arguments: str) -> str:
        done = subprocess.run(
            self._command(*arguments),
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout

    def when(self, condition):
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.log.read_text()
            if found := condition():
                return found
            time.sleep(0.1)
        raise AssertionError(f"it did not come to that: {self.log.read_text()}")

    @property
    def run(self) -> Path:
        return next((self.folder / "runs").glob("shown-*"))

    def view(self):
        return read_run(self.run)

    def link(self) -> str:
        return next((path.read_text().strip() for path in self.folder.glob("runs/*/dashboard.txt")), "")

    def settled(self) -> bool:
        counts = self.view().counts
        return counts.lanes_done == 3 and counts.lanes_failed == 1 and counts.calculations_running == 7

    def finish(self) -> None:
        self.gate.touch()
        self.process.wait(60)

    def stop(self) -> None:
        self.gate.touch()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()


@pytest.fixture
def going(tmp_path):
    run = Going(tmp_path)
    run.when(run.link)
    run.when(run.settled)
    yield run
    run.stop()


def fetch(url: str, **headers: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=20) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


NUMBERS = """
(() => {
  const numbers = {};
  for (const one of document.querySelectorAll("[data-run] [data-value]")) numbers[one.dataset.value] = +one.textContent;
  return numbers;
})()
"""
NODES = """
(() => {
  const found = {};
  for (const stretch of document.querySelectorAll("[data-stretch]"))
    for (const node of stretch.querySelectorAll("[data-node]"))
      found[stretch.dataset.stretch + ": " + node.dataset.node] = node.textContent;
  return found;
})()
"""
WORKERS = """
Object.fromEntries([...document.querySelectorAll("[data-worker]")].map((one) => [one.dataset.worker,
  [one.querySelector(".count").textContent, [...one.querySelectorAll(".labels li")].map((label) => label.textContent)]]))
"""


def test_the_page_shows_what_the_records_say(going, tmp_path):
    program = need("chromium")

    async def look():
        async with browser(program, tmp_path) as tab:
            await tab.resize(1600, 1000)
            await tab.open(going.link())
            await tab.wait("document.querySelector('[data-value=\"lanes.failed\"]').textContent === '1'")
            # What runs is told a moment after it was sent.
            await tab.wait("document.querySelector('[data-worker=\"gpu-1\"] .count').textContent === '3/3'")
            await tab.wait("document.querySelector('[data-worker=\"gpu-0\"] .count').textContent === '3/3'")
            await tab.wait("document.querySelectorAll('.area[d]').length === 2")
            shown = {
                "numbers": await tab.value(NUMBERS),
                "nodes": await tab.value(NODES),
                "workers": await tab.value(WORKERS),
                "text": await tab.value("document.body.innerText"),
                "address": await tab.value("location.href"),
                "cookie": await tab.value("document.cookie"),
                "dask": await tab.value("[...document.querySelectorAll('#dask a')].map((link) => link.href)"),
            }
            shown["sent elsewhere"] = [
                await cookies(tab, "http://127.0.0.1:1/"),
                await cookies(tab, "http://127.0.0.1:1/grafico/data.json"),
            ]
            assert await cookies(tab, shown["address"]) == ["grafico"]
            pictures = []
            for width, dark in ((1600, False), (400, True)):
                await tab.resize(width, 900)
                await tab.dark(dark)
                await tab.wait(f"window.innerWidth === {width}")
                shown[f"overflow at {width}"] = await tab.value("document.documentElement.scrollWidth - innerWidth")
                pictures.append(await tab.picture())
            shown["requests"], shown["problems"] = list(tab.requests), list(tab.problems)
            if importlib.util.find_spec("bokeh"):
                shown["listed"] = await dasks_own(tab, shown["address"].removesuffix("/grafico"))
                await tab.call("Page.navigate", url=shown["address"])
                await tab.wait("document.documentElement.dataset.updated")
            going.finish()
            await tab.wait("!document.querySelector('#notice').hidden")
            shown["notice"] = await tab.value("document.querySelector('#notice').textContent")
            return shown, pictures

    view = going.view()
    base, _, token = going.link().replace("/grafico?token=", " ").partition(" ")
    shown, pictures = asyncio.run(look())

    counts = view.counts
    assert shown["numbers"] == {
        "lanes.waiting": counts.lanes_pending,
        "lanes.running": counts.lanes_running,
        "lanes.done": counts.lanes_done,
        "lanes.failed": counts.lanes_failed,
        # One of the seven waits for a slot; the records know only that it was handed over.
        "calculations.waiting": counts.calculations_running - 6,
        "calculations.running": 6,
        "calculations.done": counts.calculations_done,
        "calculations.reused": counts.calculations_reused,
        "calculations.failed": counts.calculations_failed,
    }
    assert shown["numbers"]["lanes.done"] == 3
    visits = [node for lane in view.lanes.values() for node in lane.nodes]
    assert shown["nodes"] == {
        "shown: Spread": "Spread× 11 now",
        "shown: Finish": "Finish",
        "shown / conformers: Compute": f"Compute× {visits.count('Compute')}7 now✗ 1",
        "shown / conformers: Check": f"Check× {visits.count('Check')}",
    }
    assert {count for count, _ in shown["workers"].values()} == {"3/3"}
    labels = [label for _, here in shown["workers"].values() for label in here]
    assert len(labels) == 6
    assert set(labels) <= set(view.running)
    assert "tddft · conformer 4" in view.running
    assert "3 <b>&amp; would not</b> converge" in shown["text"]  # as text, not as markup
    # The secret is neither in the address nor within reach of scripts, and nothing comes from elsewhere.
    assert re.fullmatch(rf"{re.escape(base)}/[0-9a-f]{{32}}/grafico", shown["address"])
    assert shown["cookie"] == ""
    assert {url.startswith(f"{base}/") for url in shown["requests"]} == {True}
    assert shown["problems"] == []
    assert shown["address"].replace("/grafico", "/status") in shown["dask"]
    # What listens on another port of the host, as another user's server may, is sent no cookie with any path it knows.
    assert shown["sent elsewhere"] == [[], []]
    assert shown["overflow at 1600"] <= 0
    assert shown["overflow at 400"] <= 0
    assert "tddft-· conformer" in shown.get("listed", "tddft-· conformer")
    assert "has ended" in shown["notice"]
    for picture in pictures:
        assert colors(picture) > 20
    # The link goes with the cluster, and its secret was written nowhere else.
    assert not (going.run / "dashboard.txt").exists()
    assert [path for path in tmp_path.rglob("*") if path.is_file() and "profile" not in path.parts and
            token.encode() in path.read_bytes()] == []  # fmt: skip


async def cookies(tab, url: str) -> list[str]:
    """Return the names of the cookies that the browser sends along to an address."""
    return [each["name"] for each in (await tab.call("Network.getCookies", urls=[url]))["cookies"]]


async def dasks_own(tab, base: str) -> str:
    """Return what Dask's page of a worker says, after its Bokeh page was seen at work."""
    await tab.call("Page.navigate", url=f"{base}/status")
    # Bokeh draws only when its websocket was let through.
    await tab.wait("window.Bokeh && Bokeh.documents.length && Bokeh.documents[0].roots().length > 3")
    await tab.call("Page.navigate", url=f"{base}/info/main/workers.html")
    address = await tab.wait("document.querySelector('a[href*=\"worker/\"]').href")
    await tab.call("Page.navigate", url=address)
    return await tab.wait("document.body.innerText.includes('conformer') && document.body.innerText")


def colors(picture: bytes) -> int:
    imread = pytest.importorskip("matplotlib.image").imread
    pixels = imread(io.BytesIO(picture), format="png")
    return len({tuple(pixel) for row in pixels[::3, ::3] for pixel in row.tolist()})


def test_only_its_owner_sees_anything(going):
    link = going.link()
    base, _, token = link.replace("/grafico?token=", " ").partition(" ")
    paths = ("/", "/grafico", "/grafico/data.json", "/status", "/status/ws", "/health", "/info/main/workers.html",
             "/statics/css/base.css", "/sitemap.json", "/proxy/8787/127.0.0.1/status", f"/grafico?token={token[:-1]}")  # fmt: skip
    script = (
        "import sys, urllib.request, urllib.error\n"
        "for url in sys.argv[1:]:\n"
        "    try: print(urllib.request.urlopen(url, timeout=20).status)\n"
        "    except urllib.error.HTTPError as error: print(error.code)\n"
    )
    asked = subprocess.run(
        ["/usr/bin/env", "python3", "-c", script, *(f"{base}{path}" for path in paths)],
        capture_output=True, text=True, check=True, cwd="/", user="nobody" if os.getuid() == 0 else None,
        env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
    )  # fmt: skip
    assert asked.stdout.split() == ["401"] * len(paths)
    for method in ("POST", "PUT", "OPTIONS"):
        request = urllib.request.Request(f"{base}/grafico", method=method, data=b"x" * 100_000)
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(request, timeout=20)
    # Nobody reads the secret from a list of processes, from their environment, or from what was printed.
    family = [going.process.pid, *(child.pid for child in psutil.Process(going.process.pid).children(recursive=True))]
    for pid in family:
        assert token.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
        assert token.encode() not in Path(f"/proc/{pid}/environ").read_bytes()
    assert token not in going.log.read_text()
    assert f"{base}/grafico" in going.log.read_text()
    assert (going.run / "dashboard.txt").stat().st_mode & 0o777 == 0o600
    assert going.run.stat().st_mode & 0o777 == 0o700
    # Its owner is told the link, and gets in by it.
    assert link in going.grafico("show", "last")
    assert json.loads(going.grafico("show", "last", "--json"))["dashboard"] == link
    status, body = fetch(f"{base}/grafico/data.json", Authorization=f"Bearer {token}")
    assert status == 200
    assert json.loads(body)["runs"][0]["run"] == going.run.name
    # What a page of another server asks for is refused, whatever cookie the browser sends along.
    assert fetch(f"{base}/grafico/data.json", Authorization=f"Bearer {token}", Origin="http://127.0.0.1:1")[0] == 403
    # Names on Dask's own pages are those that people know.
    worker = next(iter(json.loads(body)["workers"]))
    status, listed = fetch(f"{base}/info/main/workers.html", Authorization=f"Bearer {token}")
    assert status == 200
    assert worker["name"] in listed.decode()
