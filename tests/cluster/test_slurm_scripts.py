"""Batch scripts: golden ones for sites of several styles, and any valid profile's accepted by bash."""

import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grafico.cluster import Profile, load_profile
from grafico.cluster.builtin import BUILTIN
from grafico.cluster.slurm.script import (
    allocation_script,
    check_script,
    controller_script,
    host_command,
    host_script,
    job_name,
)
from grafico.errors import ProfileError

GOLDEN = Path(__file__).parent / "golden"
SITES = sorted(path.stem for path in GOLDEN.glob("*.yaml"))
FOLDER = Path("/home/ada/runs/tiny-20261130-1a2b/cluster")
RUN = ("/opt/grafico/bin/grafico", "run", "jobs/my job.yaml", "--folder", "/home/ada/runs/tiny-20261130-1a2b")


def scripts(profile, folder=FOLDER, label="1"):
    """Every script of a profile, by name."""
    about = {"name": "tiny-20261130-1a2b", "log": folder.parent / "controller.log"}
    if profile.workers == "allocation":
        return {"allocation": allocation_script(profile, RUN, **about)}
    found = {pool.name: host_script(profile, pool.name, folder, label) for pool in profile.pools}
    return found | {"controller": controller_script(profile, RUN, **about)}


@pytest.mark.parametrize("site", SITES)
def test_each_site_gets_the_scripts_that_it_wants(site):
    expected = {path.suffixes[-2][1:]: path.read_text() for path in GOLDEN.glob(f"{site}.*.sbatch")}
    written = scripts(load_profile(str(GOLDEN / f"{site}.yaml")))
    assert written == expected
    for text in written.values():
        check_script(text)


def test_the_built_in_profiles_have_scripts():
    for profile in BUILTIN.values():
        if profile.kind == "slurm":
            for text in scripts(profile).values():
                check_script(text)


def run_script(text, tmp_path, **environ):
    """Run a script with bash; return what it printed."""
    path = tmp_path / "script"
    path.write_text(text)
    done = subprocess.run(
        ["bash", str(path)], check=False, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin", **environ}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_host_is_started_with_exactly_the_words_that_it_is_given(tmp_path):
    folder = tmp_path / "a b $HOME `id` ;x"
    pool = {"name": "cpu", "cpus": 1, "memory_mib": 1000, "container": "printf '%s\\n' '$FIRST' \"it's; $(id)\" '*'"}
    profile = Profile.model_validate({"kind": "slurm", "pools": [pool], "setup": ["export FIRST='1 2'"]})
    said = run_script(host_command(profile, "cpu", folder, "7") + "\n", tmp_path)
    assert said.splitlines() == [
        *("1 2", "it's; $(id)", "*"),
        *("python3", "-P", "-m", "grafico.cluster.host", "--folder", str(folder), "--pool", "cpu", "--label", "7"),
    ]


@pytest.mark.parametrize("folder", ['/a"b', "/a\nb", "/a\\b", "/a`id`", "/$HOME/x", "/a'b"])
def test_folders_that_slurm_cannot_write_to_are_refused(folder):
    with pytest.raises(ProfileError, match="holds a character that no Slurm option can"):
        host_script(BUILTIN["slurm-cpu"], "cpu", Path(folder), "1")


@pytest.mark.parametrize("label", ["", "a b", "-x", "1;id", "a\nb", "../x"])
def test_labels_that_are_no_words_are_refused(label):
    with pytest.raises(ProfileError, match="a host cannot be called"):
        host_command(BUILTIN["slurm-cpu"], "cpu", FOLDER, label)


def test_set_up_lines_that_bash_does_not_understand_are_refused_before_anything_is_submitted():
    profile = Profile.model_validate(
        {"kind": "slurm", "pools": [{"name": "cpu", "cpus": 1, "memory_mib": 1000, "setup": ["module load 'x"]}]}
    )
    with pytest.raises(ProfileError, match=r"set-up lines make no shell script: .*unexpected EOF"):
        check_script(host_script(profile, "cpu", FOLDER, "1"))


def test_jobs_of_two_clusters_have_different_names():
    one, other = job_name(FOLDER, "cpu", "1"), job_name(FOLDER.parent / "x" / "cluster", "cpu", "1")
    assert one.startswith("grafico-tiny-20261130-1a2b-")
    assert one.endswith("-cpu-1")
    assert one != other
    assert job_name(Path("/home/ada/ü b/"), "cpu", "1").isascii()


PRINTABLE = st.text(st.characters(exclude_categories=("C", "Z")), max_size=12)
WORD = st.from_regex(r"[A-Za-z0-9_.,&|()*\[\]:=@%+-]{1,20}", fullmatch=True).filter(lambda w: not w.startswith("-"))
WORDS = st.lists(PRINTABLE, min_size=1, max_size=4)
SLURM = st.fixed_dictionaries(
    {},
    optional={
        "partition": WORD,
        "account": WORD,
        "qos": WORD,
        "reservation": WORD,
        "constraint": WORD,
        "walltime": st.sampled_from(["00:10:00", "2-12:00:00", "120:00:00"]),
        "gpu_style": st.sampled_from(["gres", "gpus", "gpus-per-node", "gpus-per-task", "none"]),
        "gpu_type": WORD,
        "memory": st.booleans(),
        "directives": st.lists(WORD.map("--comment={}".format), max_size=3),
        "omit": st.lists(st.sampled_from(["--mem", "--ntasks", "--time", "--nodes"]), max_size=2),
    },
)
PROFILES = st.fixed_dictionaries(
    {"slurm": SLURM},
    optional={
        "setup": st.lists(WORDS.map(lambda words: "echo " + shlex.join(words)), max_size=3),
        "python": st.sampled_from(["/opt/p/bin/python", "python3.12"]),
        "container": WORDS.map(lambda words: shlex.join(["apptainer", "exec", *words])),
    },
)
LINES_OF_A_HOST = 14
"""Options of a job of a host at most, besides directives."""


def script_of(data, place):
    """Write a profile's script, or raise what refuses it."""
    pool = {"name": "gpu", "cpus": 2, "memory_mib": 900, "gpus": 2, "gpu_memory_mib": 5000}
    pool |= {"container": data["container"]} if "container" in data else {}
    profile = Profile.model_validate(
        {"kind": "slurm", "pools": [pool], **{name: value for name, value in data.items() if name != "container"}}
    )
    text = host_script(profile, "gpu", Path("/runs") / place / "cluster", "1")
    check_script(text)
    return profile, text


def assert_as_it_was_meant(profile, text):
    """One option a line, as many lines as were meant, and none that nobody wrote."""
    header, _, body = text.partition("\n\n")
    lines, commands = header.split("\n"), body.rstrip("\n").split("\n")
    assert lines[0] == "#!/bin/bash"
    assert all(line.startswith("#SBATCH -") and line.isprintable() for line in lines[1:])
    assert len(lines) - 1 - len(profile.slurm.directives) <= LINES_OF_A_HOST
    assert len(commands) == len(profile.setup) + 1 + (commands[0] == "unset PYTHONPATH PYTHONHOME")
    assert commands[-1].startswith("exec ")
    assert "#SBATCH" not in body
    assert "PRIVATE KEY" not in text


@settings(max_examples=30, deadline=None)
@given(PROFILES)
def test_any_valid_profile_gives_a_script_that_bash_accepts(data):
    assert_as_it_was_meant(*script_of(data, "tiny"))


HOSTILE = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        [
            "x\n#SBATCH --uid=0",
            "x\nid",
            "$(id)",
            "`id`",
            "'; id; '",
            '"; id; "',
            "a b",
            "--wrap=id",
            "x\r\nid",
            "\u2028id",
            "x #",
        ]
    ),
)
PLACES = ("partition", "account", "qos", "reservation", "constraint", "walltime", "gpu_type", "directives", "omit")


@settings(max_examples=60, deadline=None)
@given(PROFILES, HOSTILE, st.sampled_from([*PLACES, "setup", "python", "container", "folder"]))
def test_whatever_stands_in_a_profile_is_refused_or_stays_where_it_belongs(data, hostile, where):
    if where in {"directives", "omit"}:
        data = {**data, "slurm": {**data["slurm"], where: [hostile]}}
    elif where in PLACES:
        data = {**data, "slurm": {**data["slurm"], where: hostile}}
    elif where == "setup":
        data = {**data, "setup": [hostile]}
    elif where != "folder":
        data = {**data, where: hostile}
    try:
        profile, text = script_of(data, hostile if where == "folder" and "\0" not in hostile else "tiny")
    except (ValueError, ProfileError):
        return
    assert_as_it_was_meant(profile, text)


def test_no_secret_stands_in_a_script(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    folder = tmp_path / "cluster"
    (folder / "tls").mkdir(parents=True)
    (folder / "tls" / "key.pem").write_text("-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n")
    for profile in (BUILTIN["slurm-h100"], BUILTIN["allocation"]):
        for text in scripts(profile, folder).values():
            assert "PRIVATE KEY" not in text
            assert "c2VjcmV0" not in text
            assert "sk-very-secret" not in text
