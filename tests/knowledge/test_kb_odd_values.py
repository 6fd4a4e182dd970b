"""The command line with what nobody of good sense would put into a knowledge base."""

import json
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

from grafico.cli.main import app


def kb(*arguments):
    return CliRunner().invoke(app, ["kb", *arguments])


ODD = """@prefix : <http://ex.org/> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
:a :n "NaN"^^xsd:double ; :i "-INF"^^xsd:double ; :bad "abc"^^xsd:integer, "maybe"^^xsd:boolean ;
   :big 123456789012345678901234567890 ; :esc "\\u001b[2J[red]x[/red]" ; :word "nan", "infinity", "1_000" ."""


def test_literals_that_are_no_values_are_shown_as_they_are(tmp_path):
    (tmp_path / "odd.ttl").write_text(ODD)
    store = ["--store", str(tmp_path / "kb")]
    assert kb("import", str(tmp_path / "odd.ttl"), *store).exit_code == 0
    shown = kb("show", "http://ex.org/a", *store)
    assert shown.exit_code == 0, shown.stderr
    assert "abc" in shown.stdout
    assert "\x1b" not in shown.stdout
    told = json.loads(kb("show", "http://ex.org/a", "--json", *store).stdout)
    assert told["truncated"] is False
    values = {row["property"].rpartition("/")[2]: row["value"] for row in told["properties"]}
    assert (values["n"], values["i"], values["big"]) == ("nan", "-inf", 123456789012345678901234567890)
    rows = kb("query", "SELECT ?o { <http://ex.org/a> ?p ?o }", *store)
    assert rows.exit_code == 0, rows.stderr
    for word in ("nan", "infinity", "1_000"):
        assert kb("query", "ASK { ?s <http://ex.org/word> ?o }", "--bind", f"o={word}", *store).stdout == "yes\n"


def test_checking_such_literals_says_nothing_else(tmp_path):
    (tmp_path / "odd.ttl").write_text(ODD)
    store = ["--store", str(tmp_path / "kb")]
    kb("import", str(tmp_path / "odd.ttl"), *store)
    command = [str(Path(sys.executable).with_name("grafico")), "kb", "validate", *store]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_much_that_is_said_of_a_thing_is_not_left_out_in_silence(tmp_path):
    lines = "".join(f"<urn:a:{n}> <urn:b:c> <urn:x:y> .\n" for n in range(101))
    (tmp_path / "many.nt").write_text(lines)
    store = ["--store", str(tmp_path / "kb")]
    kb("import", str(tmp_path / "many.nt"), *store)
    assert json.loads(kb("show", "urn:x:y", "--json", *store).stdout)["truncated"] is True
    assert "there is more" in kb("show", "urn:x:y", *store).stderr


def test_an_empty_store_is_refused_and_an_export_is_whole_or_not_there(tmp_path):
    refused = kb("query", "ASK {}", "--store", "", "--json")
    assert refused.exit_code == 2
    assert "its name is empty" in json.loads(refused.stdout)["error"]
    (tmp_path / "one.nt").write_text("<urn:a:b> <urn:b:c> <urn:x:y> .\n")
    store = ["--store", str(tmp_path / "kb")]
    kb("import", str(tmp_path / "one.nt"), *store)
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "out.ttl").write_text("old")
    (tmp_path / "out.ttl").symlink_to(tmp_path / "real" / "out.ttl")
    assert kb("export", "-o", str(tmp_path / "out.ttl"), *store).exit_code == 0
    assert (tmp_path / "out.ttl").is_symlink()
    assert "urn:a:b" in (tmp_path / "real" / "out.ttl").read_text()
    assert [path.name for path in (tmp_path / "real").iterdir()] == ["out.ttl"]
    assert kb("export", "--format", "turtle", "-o", "/dev/null", *store).exit_code == 0


def test_a_mark_at_the_beginning_of_a_file_is_passed_over(tmp_path):
    for name in ("a.ttl", "a.nq", "a.nt", "a.trig"):
        (tmp_path / name).write_bytes(b'\xef\xbb\xbf<urn:a:b> <urn:b:c> "x" .\n')
        done = kb("import", str(tmp_path / name), "--store", str(tmp_path / name[2:]), "--json")
        assert done.exit_code == 0, done.stderr
        assert json.loads(done.stdout)["imported"][0]["triples"] == 1


def test_what_is_quoted_of_a_file_does_nothing_to_a_terminal(tmp_path):
    (tmp_path / "a.ttl").write_bytes(b"\x1b]0;owned\x07\x1b[2J <urn:a:b> .")
    done = kb("import", str(tmp_path / "a.ttl"), "--store", str(tmp_path / "kb"))
    assert done.exit_code == 2
    assert "\x1b" not in done.stderr
    assert "\x07" not in done.stderr
