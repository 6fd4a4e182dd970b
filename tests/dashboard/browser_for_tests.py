"""A real browser, driven over its debugging protocol by the websocket library that Dask brings along."""

import asyncio
import base64
import contextlib
import itertools
import json
from collections.abc import AsyncIterator
from pathlib import Path

from tornado.httpclient import AsyncHTTPClient, HTTPRequest
from tornado.websocket import websocket_connect

FLAGS = (
    "--headless=new",
    "--no-sandbox",  # refused to root otherwise
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-extensions",
    "--disable-background-networking",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--remote-debugging-port=0",
)
WAIT_S = 60.0


class Tab:
    """One page of the browser."""

    def __init__(self, socket):
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers = {}
        self.problems = []
        """What the page's scripts complained of, and what it could not load."""
        self.requests = []
        """Addresses that the page asked for."""
        self._reader = asyncio.create_task(self._read())

    async def _read(self):
        while (message := await self._socket.read_message()) is not None:
            told = json.loads(message)
            if "id" in told:
                waiting = self._answers.pop(told["id"], None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(told)
            elif told["method"] == "Runtime.exceptionThrown":
                self.problems.append(told["params"]["exceptionDetails"]["exception"].get("description", "exception"))
            elif told["method"] == "Log.entryAdded" and told["params"]["entry"]["level"] == "error":
                self.problems.append(told["params"]["entry"]["text"])
            elif told["method"] == "Network.requestWillBeSent":
                self.requests.append(told["params"]["request"]["url"])

    async def call(self, method, **params):
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.write_message(json.dumps({"id": number, "method": method, "params": params}))
        told = await asyncio.wait_for(answer, WAIT_S)
        if "error" in told:
            raise AssertionError(f"{method}: {told['error']}")
        return told["result"]

    async def open(self, url):
        for domain in ("Page", "Runtime", "Log", "Network"):
            await self.call(f"{domain}.enable")
        await self.call("Page.navigate", url=url)

    async def value(self, expression):
        """Return what a JavaScript expression gives in the page."""
        told = await self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in told:
            raise AssertionError(f"{expression}: {told['exceptionDetails']}")
        return told["result"].get("value")

    async def wait(self, expression):
        """Return what an expression gives, as soon as that is something."""
        deadline = asyncio.get_running_loop().time() + WAIT_S
        while asyncio.get_running_loop().time() < deadline:
            with contextlib.suppress(AssertionError):
                if (found := await self.value(expression)) not in (None, False, "", 0):
                    return found
            await asyncio.sleep(0.1)
        shown = await self.value("document.body ? document.body.innerText : ''")
        raise AssertionError(f"{expression} never held; the page shows: {shown[:2000]}; it said: {self.problems}")

    async def resize(self, width, height=900):
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )

    async def dark(self, on=True):
        features = [{"name": "prefers-color-scheme", "value": "dark" if on else "light"}]
        await self.call("Emulation.setEmulatedMedia", features=features)

    async def picture(self, *, whole=True):
        """Return a screenshot, PNG."""
        told = await self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        return base64.b64decode(told["data"])

    def close(self):
        self._reader.cancel()
        self._socket.close()


@contextlib.asynccontextmanager
async def browser(program: str, folder: Path) -> AsyncIterator[Tab]:
    """Start a browser with a profile of its own, and give its first page."""
    with (folder / "chromium.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            program, *FLAGS, f"--user-data-dir={folder / 'profile'}", "about:blank",
            stdout=log, stderr=log, stdin=asyncio.subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    try:
        port = await _port(folder / "profile" / "DevToolsActivePort", process)
        client = AsyncHTTPClient(force_instance=True)
        answer = await client.fetch(
            HTTPRequest(f"http://127.0.0.1:{port}/json/new?about:blank", method="PUT", body=b"")
        )
        socket = await websocket_connect(json.loads(answer.body)["webSocketDebuggerUrl"], max_message_size=1 << 28)
        tab = Tab(socket)
        try:
            yield tab
        finally:
            tab.close()
            client.close()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), 10)
        except TimeoutError:
            process.kill()
            await process.wait()


async def _port(path: Path, process) -> int:
    deadline = asyncio.get_running_loop().time() + WAIT_S
    while asyncio.get_running_loop().time() < deadline:
        if process.returncode is not None:
            break
        with contextlib.suppress(OSError, ValueError, IndexError):
            return int(path.read_text().split()[0])
        await asyncio.sleep(0.05)
    raise AssertionError(
        f"the browser did not start: {path.parent.parent.joinpath('chromium.log').read_text()[-2000:]}"
    )
