"""Slurm's commands: missing, slow, unreadable, of old and new releases. Each is a program on PATH, as Slurm's are."""

import json
import stat
import time

import pytest
from typer.testing import CliRunner

from grafico.cli.main import app
from grafico.cluster.connection import ClusterFolder
from grafico.cluster.slurm import commands
from grafico.cluster.slurm.records import HostRecords, cancel_left, look_up
from grafico.errors import ProfileError


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """Put programs on PATH that answer as they are told, and note how they are called."""
    folder = tmp_path / "bin"
    folder.mkdir()
    calls = tmp_path / "calls"
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    def make(name, *, out="", err="", code=0, sleep=0):
        text = f"#!/bin/bash\necho {name} \"$@\" >>{calls}\nsleep {sleep}\ncat <<'OUT'\n{out}\nOUT\n"
        text += f"cat >&2 <<'ERR'\n{err}\nERR\nexit {code}\n"
        (folder / name).write_text(text)
        (folder / name).chmod(stat.S_IRWXU)

    make.calls = lambda: calls.read_text().splitlines() if calls.exists() else []
    # What is installed on this machine does not answer for what a test did not make.
    monkeypatch.setattr(commands.shutil, "which", lambda program: str(p) if (p := folder / program).exists() else None)
    return make


def test_a_command_that_is_missing_is_named(slurm):
    assert commands.queue() == "squeue is not there"
    assert commands.accounting(["1"]) == "sacct is not there"
    assert commands.partitions() == "sinfo is not there"
    assert commands.version().problem == "sinfo is not there"
    assert commands.cancel(["1"]) == "scancel is not there"
    assert commands.try_script("#!/bin/bash\n") == ""


def test_a_command_that_does_not_answer_is_given_up(slurm):
    slurm("squeue", sleep=60)
    begun = time.monotonic()
    assert commands.call("squeue", timeout_s=0.3) == ("", "squeue did not answer within 0.3 s")
    assert time.monotonic() - begun < 30


def test_slurm_is_quoted_without_its_prefixes(slurm):
    slurm(
        "squeue",
        err="squeue: error: Unable to contact slurm controller (connect failure)\nslurm_load_jobs error",
        code=1,
    )
    assert commands.queue() == "squeue: Unable to contact slurm controller (connect failure); slurm_load_jobs error"


def test_the_queue_is_read(slurm):
    slurm(
        "squeue", out="12|RUNNING|n1|None\n13|PENDING||Resources\n14|PENDING||(null)\n15_[1-3]|PENDING||Priority\nnoise"
    )
    found = commands.queue()
    assert found["12"] == ("12", "RUNNING", "", "n1")
    assert found["13"].reason == "Resources"
    assert found["14"].reason == ""
    assert set(found) == {"12", "13", "14"}
    assert set(commands.queue(["13", "99"])) == {"13"}


def test_accounting_is_read_and_who_cancelled_a_job_is_its_reason(slurm):
    slurm(
        "sacct",
        out="7|COMPLETED|n1|0:0\n8|CANCELLED by 1000|n1|0:15\n9|FAILED|n2|3:0\n10|NODE_FAIL|n2|1:0\n10|RUNNING|n1|0:0",
    )
    found = commands.accounting(["7", "8", "9", "10"])
    assert found["7"] == ("7", "COMPLETED", "", "n1")
    assert found["8"] == ("8", "CANCELLED", "by 1000", "n1")
    assert found["9"].reason == "exit code 3:0"
    assert found["10"].state == "RUNNING", "the last row is the present one"


@pytest.mark.parametrize(
    ("out", "job_id"),
    [
        ("123", "123"),
        ("123;cluster", "123"),
        ("Submitted batch job 123", "123"),
        ("Project 77 has 400 hours left\n123\n", "123"),
        ("Your quota: 50 %\nSubmitted batch job 123 on cluster x", "123"),
        ("nothing", None),
        ("", None),
    ],
)
def test_the_number_of_a_job_is_found_whatever_the_site_prints(out, job_id):
    assert commands.job_id_in(out) == job_id


def test_a_refused_submission_is_an_error_in_slurms_own_words(slurm, tmp_path):
    script = tmp_path / "x.sbatch"
    script.write_text("#!/bin/bash\n")
    slurm("sbatch", err="sbatch: error: Batch job submission failed: Invalid account or account/partition", code=1)
    with pytest.raises(ProfileError, match=r"not submitted: sbatch: Batch job submission failed: Invalid account"):
        commands.submit(script)
    slurm("sbatch", out="a banner only")
    with pytest.raises(ProfileError, match="gave no job number: a banner only"):
        commands.submit(script)
    slurm("sbatch", out="4711")
    assert commands.submit(script) == "4711"


def test_what_may_pass_is_no_reason_to_refuse_a_profile(slurm):
    slurm("sbatch", err="sbatch: error: invalid partition specified: x\nallocation failure: Invalid partition", code=1)
    assert "invalid partition specified: x" in commands.try_script("#!/bin/bash\n")
    for said in ("Socket timed out on send/recv operation", "Unable to contact slurm controller", "QOSMaxSubmitJobPerUserLimit",
                 "Required node not available (down, drained or reserved)"):  # fmt: skip
        slurm("sbatch", err=f"allocation failure: {said}", code=1)
        assert commands.try_script("#!/bin/bash\n") == ""


def test_jobs_are_submitted_without_what_the_present_job_was_given():
    environ = {"PATH": "/bin", "SLURM_JOB_ID": "1", "SLURM_MEM_PER_CPU": "500", "SLURM_CONF": "/etc/s", "SBATCH_ACCOUNT": "a",
               "CUDA_VISIBLE_DEVICES": "0", "HOME": "/h"}  # fmt: skip
    assert commands.clean_environment(environ) == {
        "PATH": "/bin", "SLURM_CONF": "/etc/s", "SBATCH_ACCOUNT": "a", "HOME": "/h"
    }  # fmt: skip


@pytest.mark.parametrize(
    "habit",
    ["SQUEUE_PARTITION", "SQUEUE_STATES", "SQUEUE_FORMAT", "SLURM_TIME_FORMAT", "SACCT_FORMAT", "SCANCEL_INTERACTIVE",
     "SINFO_PARTITION", "SCONTROL_ALL"],
)  # fmt: skip
def test_what_a_user_has_set_for_his_own_eyes_does_not_hide_jobs(slurm, monkeypatch, tmp_path, habit):
    script = tmp_path / "bin" / "squeue"
    script.write_text(f"#!/bin/bash\n[ -z \"${habit}\" ] && echo '12|RUNNING|n1|None'\nexit 0\n")
    script.chmod(stat.S_IRWXU)
    monkeypatch.setenv(habit, "x")
    assert set(commands.queue()) == {"12"}


def test_the_script_has_the_last_word_and_what_it_does_not_say_is_as_the_user_set_it(slurm, monkeypatch, tmp_path):
    environ = {"SBATCH_PARTITION": "p", "SBATCH_TIMELIMIT": "1", "SBATCH_MEM_PER_CPU": "9G", "SBATCH_NO_REQUEUE": "1",
               "SBATCH_WAIT": "1", "SBATCH_ERROR": "/dev/null", "SBATCH_ACCOUNT": "a", "SBATCH_QOS": "q", "HOME": "/h"}  # fmt: skip
    text = (
        "#!/bin/bash\n#SBATCH --partition=gpu\n#SBATCH --time=1:00\n#SBATCH --mem=8M\n#SBATCH --requeue\n#SBATCH -q x\n"
    )
    assert commands.submission_environment(text, environ) == {"SBATCH_ACCOUNT": "a", "HOME": "/h"}
    said = tmp_path / "said"
    program = tmp_path / "bin" / "sbatch"
    program.write_text(f'#!/bin/bash\necho "$SBATCH_PARTITION $SBATCH_ACCOUNT" >{said}\necho 7\n')
    program.chmod(stat.S_IRWXU)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    script = tmp_path / "x.sbatch"
    script.write_text(text)
    assert commands.submit(script) == "7"
    assert said.read_text() == " a\n"


def test_partitions_are_read(slurm):
    slurm(
        "sinfo",
        out="gpu*|up|2-00:00:00|3/1/0/4|64|512000+|gpu:h100:4(S:0-1)\nold|down|infinite|0/0/2/2|16|64000|(null)",
    )
    first, second = commands.partitions()
    assert (first.name, first.default, first.available, first.nodes, first.idle) == ("gpu", True, True, 4, 1)
    assert first.gres == "gpu:h100:4(S:0-1)"
    assert (second.available, second.gres) == (False, "")


def test_states_are_found_by_whatever_can_be_read(slurm):
    slurm("squeue", out="1|RUNNING|n1|None")
    slurm("sacct", out="2|TIMEOUT|n1|0:0\n3|RUNNING|n1|0:0")
    slurm("scontrol", out="JobId=4 JobState=PENDING Reason=Priority Dependency=(null)")
    states, problem = look_up(["1", "2"])
    assert (states["1"].state, states["2"].state, problem) == ("RUNNING", "TIMEOUT", "")
    assert look_up(["4"])[0]["4"].reason == "Priority"
    slurm("squeue", err="slurm_load_jobs error: Access denied", code=1)
    states, problem = look_up(["3"])
    assert states["3"].state == "RUNNING"
    assert "Access denied" in problem


def test_a_job_that_slurm_has_forgotten_is_gone_only_if_the_queue_can_be_read(slurm):
    slurm("sacct", err="Slurm accounting storage is disabled", code=1)
    slurm("scontrol", err="slurm_load_jobs error: Unable to contact slurm controller", code=1)
    slurm("squeue")
    assert look_up(["5"])[0]["5"].ended
    slurm("squeue", err="squeue: error: Unable to contact slurm controller", code=1)
    assert look_up(["5"]) == ({}, "squeue: Unable to contact slurm controller")


def test_a_controller_that_is_gone_is_asked_for_one_job_and_not_for_each(slurm, tmp_path):
    records = HostRecords(tmp_path)
    for number in range(1, 6):
        records.write(records.script(f"cpu-{number}"), f"#!/bin/bash\n#SBATCH --job-name=grafico-x-cpu-{number}\n")
        if number > 2:
            records.write(records.number(f"cpu-{number}"), f"{number}\n")
    for name in ("squeue", "sacct", "scontrol", "scancel"):
        slurm(name, err="Unable to contact slurm controller (connect failure)", code=1)
    said = "scancel: Unable to contact slurm controller (connect failure)"
    assert cancel_left(tmp_path, within_s=60) == f"jobs 3, 4, 5: {said}"
    assert len(slurm.calls()) == 5, slurm.calls()
    assert len(list(records.left())) == 5, "they may be in the queue, and are looked for by whoever comes next"


def test_all_of_the_asking_is_over_in_time_where_nothing_answers(slurm, tmp_path, monkeypatch):
    monkeypatch.setattr("grafico.cluster.slurm.records.LEAST_S", 0.2)
    records = HostRecords(tmp_path)
    for number in range(1, 30):
        records.write(records.script(f"cpu-{number}"), f"#!/bin/bash\n#SBATCH --job-name=grafico-x-cpu-{number}\n")
        records.write(records.number(f"cpu-{number}"), f"{number}\n")
    for name in ("squeue", "sacct", "scontrol", "scancel"):
        slurm(name, sleep=60)
    assert cancel_left(tmp_path, within_s=1).startswith("jobs 1, 2, 3,")
    assert [call.partition(" ")[0] for call in slurm.calls()] == ["scancel", "squeue", "sacct", "scontrol"]


def test_what_a_killed_server_left_in_the_queue_is_taken_out(slurm, tmp_path):
    records = HostRecords(tmp_path)
    for name, number in (("cpu-1", "41"), ("cpu-2", "")):
        records.write(records.script(name), f"#!/bin/bash\n#SBATCH --job-name=grafico-x-{name}\n")
        if number:
            records.write(records.number(name), f"{number}\n")
    slurm("squeue", out="41|CANCELLED|n1|None\n42|CANCELLED||None")
    slurm("scancel")
    assert cancel_left(tmp_path, within_s=5) == ""
    assert "scancel 41 42" in slurm.calls(), "the one without a number is found by its name"
    assert list(records.left()) == []


def test_what_cannot_be_taken_out_is_told_and_not_forgotten(slurm, tmp_path):
    records = HostRecords(tmp_path)
    records.write(records.script("cpu-1"), "#!/bin/bash\n#SBATCH --job-name=grafico-x-cpu-1\n")
    records.write(records.number("cpu-1"), "41\n")
    slurm("squeue", out="41|RUNNING|n1|None")
    slurm("scancel", err="scancel: error: Kill job error on job id 41: Access/permission denied", code=1)
    assert cancel_left(tmp_path, within_s=0.1) == "job 41: RUNNING"
    assert [name for name, _, _ in records.left()] == ["cpu-1"]


def test_taking_down_a_cluster_whose_server_is_long_dead_tries_its_jobs_again_and_tells_of_those_that_stay(
    slurm, tmp_path, monkeypatch
):
    monkeypatch.setenv("GRAFICO_CLUSTERS", str(tmp_path / "clusters"))
    place = ClusterFolder(tmp_path / "clusters" / "c")
    place.create()
    place.profile.write_text("{}")
    records = HostRecords(place.root)
    records.write(records.script("cpu-1"), "#!/bin/bash\n#SBATCH --job-name=grafico-x-cpu-1\n")
    records.write(records.number("cpu-1"), "41\n")
    for name in ("squeue", "sacct", "scontrol", "scancel"):
        slurm(name, err="Unable to contact slurm controller (connect failure)", code=1)
    said = CliRunner().invoke(app, ["cluster", "down", "c"], catch_exceptions=False)
    assert said.exit_code == 0
    assert "Slurm may still have jobs of it: job 41: scancel: Unable to contact slurm controller" in said.stderr
    slurm("scancel")
    slurm("squeue", out="41|CANCELLED|n1|None")
    said = CliRunner().invoke(app, ["cluster", "down", "c", "--json"], catch_exceptions=False)
    assert json.loads(said.stdout)["in_queue"] == ""
    assert list(records.left()) == []


def test_nothing_is_asked_of_slurm_where_nothing_was_submitted(slurm, tmp_path):
    assert cancel_left(tmp_path / "no-such-folder") == ""
    assert slurm.calls() == []
