"""The dashboard without Bokeh, and the door itself."""

import asyncio
import json
import re
import socket
import sys
import urllib.error
import urllib.request
from urllib.parse import urlsplit

from grafico.cluster import Pool, Profile, open_cluster
from grafico.runs import RunPaths

PROFILE = Profile(name="shown", dashboard=0, pools=(Pool(name="cpu", cpus=1, memory_mib=1000),))


class Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


def ask(url: str, **headers: str):
    try:
        with urllib.request.build_opener(Stay).open(urllib.request.Request(url, headers=headers), timeout=20) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


def shown(tmp_path, questions):
    """Return what a cluster of its own answers."""
    paths = RunPaths(tmp_path / "run")
    paths.create()

    async def main():
        async with open_cluster(PROFILE, paths.root) as cluster:
            return await asyncio.to_thread(questions, cluster.dashboard_link)

    return asyncio.run(main())


def test_the_page_needs_no_bokeh(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "bokeh", None)  # as if it were not installed

    def questions(link):
        base, _, token = link.replace("/grafico?token=", " ").partition(" ")
        return [ask(f"{base}{path}", Authorization=f"Bearer {token}") for path in
                ("/grafico", "/grafico/data.json", "/status", "/health")]  # fmt: skip

    page, data, status, health = shown(tmp_path, questions)
    assert (page[0], data[0], health[0]) == (200, 200, 200)
    assert json.loads(data[2])["dask"] == []
    assert json.loads(data[2])["workers"][0]["name"] == "cpu"
    assert status[0] == 404
    assert b"grafico[dashboard]" in status[2]


def test_the_token_is_taken_once_and_becomes_a_cookie(tmp_path):
    def questions(link):
        base, _, token = link.replace("/grafico?token=", " ").partition(" ")
        entered = ask(f"{base}//elsewhere.example/?a=1&token={token}")
        cookie = entered[1]["Set-Cookie"].partition(";")[0]
        again = ask(f"{base}/grafico", Cookie=cookie)
        moved = ask(f"{base}{entered[1]['Location'].partition('elsewhere')[0]}grafico/", Cookie=cookie)
        forged = ask(f"{base}/grafico", Cookie=cookie[:-3])
        foreign = ask(f"{base}/grafico", Cookie=cookie, Origin="http://127.0.0.1:9")
        own = ask(f"{base}/grafico", Cookie=cookie, Origin=base)
        since = ask(f"{base}/grafico/data.json?since=soon", Cookie=cookie)
        proxy = ask(f"{base}/proxy/8787/127.0.0.1/status", Cookie=cookie)
        return token, entered, again, moved, forged, foreign, own, since, proxy

    token, entered, again, moved, forged, foreign, own, since, proxy = shown(tmp_path, questions)
    assert entered[0] == 303
    found = re.fullmatch(r"(/[0-9a-f]{32}/)elsewhere\.example/\?a=1", entered[1]["Location"])
    assert found is not None  # never another host, and no token
    assert moved[0] == 302
    assert moved[1]["Location"] == f"{found[1]}grafico"
    attributes = {}
    for part in entered[1]["Set-Cookie"].split(";")[1:]:
        name, _, value = part.strip().partition("=")
        attributes[name.lower()] = value
    assert attributes.keys() >= {"httponly", "samesite", "path"}
    assert attributes["samesite"] == "Strict"
    # Browsers send it to every port of the host, but with this path alone, which only its owner knows.
    assert attributes["path"] == found[1]
    assert [answer[0] for answer in (again, forged, foreign, own, since, proxy)] == [200, 401, 403, 200, 400, 404]
    assert "default-src 'none'" in again[1]["Content-Security-Policy"]
    assert token.encode() not in again[2]


def test_what_a_stranger_sends_is_not_taken_in(tmp_path):
    def questions(link):
        host, _, port = urlsplit(link).netloc.partition(":")
        with socket.create_connection((host, int(port)), 20) as plain:
            # A hundred megabytes are announced and do not come: the answer does not wait for them.
            plain.sendall(b"POST /grafico HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n")
            said = b""
            while chunk := plain.recv(65536):
                said += chunk
        return said

    assert shown(tmp_path, questions).startswith(b"HTTP/1.1 401")


def test_people_are_told_where_the_page_is_when_its_port_is_taken(tmp_path, recwarn):
    paths = RunPaths(tmp_path / "run")
    paths.create()
    said: list[str] = []

    async def main(port):
        profile = PROFILE.model_copy(update={"dashboard": port})
        async with open_cluster(profile, paths.root, say=said.append) as cluster:
            return urlsplit(cluster.dashboard_link).port

    with socket.create_server(("127.0.0.1", 0)) as other:
        wanted = other.getsockname()[1]
        found = asyncio.run(main(wanted))
    assert said == [f"note: the dashboard's port {wanted} is taken by somebody else: it is at {found}"]
    assert [str(each.message) for each in recwarn if "already in use" in str(each.message)] == []
