"""The program runs here as it does in a container: over this machine's own /proc."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from verify import inside

PROGRAM = Path(inside.__file__).read_text(encoding="ascii")


def run(*paths: str, **options: Any) -> Any:  # noqa: ANN401 - JSON, and options of subprocess
    argv = [sys.executable, "-I", "-S", "-c", PROGRAM, *paths]
    return json.loads(subprocess.run(argv, check=True, capture_output=True, **options).stdout)


def test_files_are_hashed_and_absent_ones_are_absent(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"content" * 1_000_000)
    found = run(str(path), str(tmp_path / "none"), str(tmp_path))["paths"]
    assert found[str(path)]["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert found[str(path)]["executable"] is False
    assert found[str(tmp_path / "none")] == {"kind": "absent"}
    assert found[str(tmp_path)]["kind"] == "directory"
    assert found[str(tmp_path)].get("executable") is None


def test_a_dangling_link_is_absent_and_another_is_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("x")
    (tmp_path / "link").symlink_to("target")
    (tmp_path / "dangling").symlink_to("nowhere")
    found = run(str(tmp_path / "link"), str(tmp_path / "dangling"))["paths"]
    assert found[str(tmp_path / "link")]["resolved"] == str(tmp_path / "target")
    assert found[str(tmp_path / "dangling")]["kind"] == "absent"


def script(path: Path, first_line: str) -> str:
    path.write_text(f"{first_line}\necho hello\n")
    path.chmod(0o755)
    return str(path)


def test_a_script_is_executable_only_with_its_interpreter(tmp_path: Path) -> None:
    good = script(tmp_path / "good", "#! /bin/sh -e")
    bad = script(tmp_path / "bad", "#!/opt/none/python3")
    found = run(good, bad)["paths"]
    assert (found[good]["interpreter"], found[good]["interpreter_executable"]) == ("/bin/sh", True)
    assert (found[bad]["executable"], found[bad]["interpreter_executable"]) == (True, False)


def test_a_bare_name_is_looked_up_on_path(tmp_path: Path) -> None:
    path = script(tmp_path / "vllm", "#!/bin/sh")
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    assert run("vllm", env=environment)["paths"]["vllm"]["resolved"] == path
    assert run("no-such-program")["paths"]["no-such-program"] == {"kind": "absent"}


def test_processes_are_seen_with_arguments_limits_and_sockets_and_it_is_not_among_them() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        found = run()
        own = next(item for item in found["processes"] if item["pid"] == os.getpid())
        assert os.fstat(server.fileno()).st_ino in own["sockets"]
    assert own["cmdline"].split("\0")[0] == Path("/proc/self/cmdline").read_text().split("\0")[0]
    assert "Max locked memory" in own["limits"]
    assert not any("def process_facts" in item["cmdline"] for item in found["processes"])
    assert found["tcp"].splitlines()[0].split()[:2] == ["sl", "local_address"]


def test_what_may_not_be_read_has_no_hash_and_stops_nothing(tmp_path: Path) -> None:
    readable = tmp_path / "readable"
    readable.write_text("x")
    found = run("/proc/self/mem", str(readable))["paths"]
    assert (found["/proc/self/mem"]["kind"], found["/proc/self/mem"]["sha256"]) == ("file", "")
    assert found[str(readable)]["sha256"]
