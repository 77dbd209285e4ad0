from __future__ import annotations

from pathlib import Path

import pytest

from deploy.logscan import failures_in, later_lines, nccl_failures_in, sortable
from deploy.state import LogLine

DATA = Path(__file__).parents[2] / "data"
NCCL = DATA / "nccl"


def lines(*texts: str) -> list[LogLine]:
    return [LogLine(f"{number:03}", text) for number, text in enumerate(texts)]


@pytest.mark.parametrize(
    "text",
    [
        "ERROR 01-30 12:00:00 [worker.py:42] AssertionError: position 9",
        "(Worker_TP1 pid=42) ERROR 01-30 12:00:00 [multiproc_executor.py:9] WorkerProc hit an",
        "(EngineCore_DP0 pid=1) Traceback (most recent call last):",
        "CRITICAL 01-30 12:00:00 [launcher.py:1] AsyncLLM finish with error",
        "AssertionError: position 9 is not below 8",
        "ERROR:    Exception in ASGI application",
        "[rank1]:[E1130 08:24:19.1 ProcessGroupNCCL.cpp:616] Watchdog caught collective",
        "vm:507:507 [0] misc/socket.cc:1 NCCL WARN socket progress: Connection refused",
        "Fatal Python error: Segmentation fault",
        "terminate called: CUDA error: an illegal memory access was encountered",
    ],
)
def test_a_line_of_a_failure_is_found(text: str) -> None:
    assert failures_in(lines("INFO all is well", text)) == (text,)


@pytest.mark.parametrize(
    "text",
    [
        "INFO 01-30 12:00:00 [api_server.py:1] Route: /v1/completions, Methods: POST",
        "WARNING 01-30 12:00:00 [registry.py:1] Failed with ModuleNotFoundError: no flash_attn",
        'INFO:     127.0.0.1:1 - "POST /v1/completions HTTP/1.1" 200 OK',
        "(Worker_TP1 pid=42) INFO 01-30 [x.py:1] num_errors=0, error_rate: 0.0",
        "vm:1:1 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'rocep1s0f1'",
        "vm:1:1 [0] NCCL WARN dlsym: undefined symbol: ncclTunerPlugin_v4",
        "mlx5_core 0000:01:00.0: ERROR insufficient power on the PCIe slot (27W)",
        "",
    ],
)
def test_a_line_that_only_looks_like_one_is_not(text: str) -> None:
    assert failures_in(lines(text)) == ()


def test_nccls_logs_of_runs_that_worked_hold_no_failure_and_the_others_do() -> None:
    for name, count in (
        ("plain", 0),
        ("bogus-hca", 0),
        ("bogus-ifname", 1),
        ("net-ib-required", 1),
    ):
        text = (NCCL / f"{name}.log").read_text().splitlines()
        assert len(nccl_failures_in(lines(*text))) == count, name


def test_only_lines_later_than_a_time_are_read_whatever_its_digits() -> None:
    text = (
        "2026-11-30T20:47:54.100000000Z first\n"
        "2026-11-30T20:47:54.123456789Z second line\n"
        "2026-11-30T20:47:55.000000000Z third\r\n"
    )
    assert [line.text for line in later_lines(text, "")] == ["first", "second line", "third"]
    later = later_lines(text, "2026-11-30T20:47:54.1Z")
    assert [line.text for line in later] == ["second line", "third"]
    assert later_lines(text, later[-1].at) == ()
    assert sortable("2026-11-30T20:47:54Z") < sortable("2026-11-30T20:47:54.1Z")


@pytest.mark.parametrize("name", ["head", "worker"])
def test_vllms_own_log_of_a_start_that_went_well_holds_no_failure(name: str) -> None:
    assert failures_in(lines(*(DATA / f"vllm/{name}.log").read_text().splitlines())) == ()


def test_a_traceback_that_vllm_logs_is_told_without_its_frames() -> None:
    text = (DATA / "vllm/head-lost-worker.log").read_text().splitlines()
    found = failures_in(lines(*text))
    assert len(found) < len(text) / 4
    assert "WorkerProc hit an exception." in found[0]
    assert any("Connection reset by peer" in line for line in found)
    assert not any("File " in line for line in found)
