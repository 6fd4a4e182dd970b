"""Scratch folders go with their owner; what one left that was killed is cleared by the next, and nobody else's is touched."""

import subprocess
import sys
import tempfile

from grafico.cluster.scratch import clear_left, scratch_folder

OWNER = """
import sys, tempfile, threading
tempfile.tempdir = sys.argv[1]
from grafico.cluster.scratch import scratch_folder
with scratch_folder() as folder:
    (folder / "integrals").write_text("large")
    for thread in threading.enumerate():  # what others left it clears first, so that the test does it below
        if thread.name == "grafico-clear":
            thread.join()
    print(folder, flush=True)
    sys.stdin.read()
"""


def test_what_a_killed_owner_left_is_cleared_and_that_of_a_living_one_is_not(tmp_path, monkeypatch):
    owners = [
        subprocess.Popen(
            [sys.executable, "-c", OWNER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    dead, alive = (owner.stdout.readline().strip() for owner in owners)
    owners[0].kill()
    owners[0].communicate()
    other = tmp_path / "grafico-something-else"
    other.mkdir()
    (tmp_path / "grafico-link").symlink_to(other)
    assert clear_left(tmp_path) == 1
    left = {str(path) for path in tmp_path.iterdir()}
    assert dead not in left
    assert {alive, str(other), str(tmp_path / "grafico-link")} == left
    owners[1].communicate("")
    assert alive not in {str(path) for path in tmp_path.iterdir()}
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with scratch_folder() as mine:
        assert clear_left(tmp_path) == 0
        assert mine.is_dir()
    assert not mine.exists()
