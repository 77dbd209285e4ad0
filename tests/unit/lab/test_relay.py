"""What becomes of frames on a slow or lossy cable."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from deploy.lab import links
from deploy.lab.relay import Line, RelaySettings
from deploy.lab.spec import LabSpec

if TYPE_CHECKING:
    from pathlib import Path


def test_a_frame_arrives_when_its_time_has_come_and_in_its_order() -> None:
    line = Line(delay_s=0.5, loss=0.0)
    assert line.wait_s(10.0) is None
    line.take(10.0, 1, b"second by name, first by time")
    line.take(10.0, 0, b"b")
    line.take(10.2, 0, b"a")
    assert line.wait_s(10.1) == pytest.approx(0.4)
    assert line.give(10.4) == ()
    assert line.give(10.5) == ((1, b"second by name, first by time"), (0, b"b"))
    assert line.wait_s(11.0) == 0.0
    assert line.give(11.0) == ((0, b"a"),)


def test_frames_are_lost_by_chance_in_the_share_that_was_asked_for() -> None:
    line = Line(delay_s=0.0, loss=0.2)
    for _ in range(1000):
        line.take(0.0, 0, b"x")
    assert 750 < len(line.give(0.0)) < 850


def test_settings_are_read_as_they_were_written(tmp_path: Path) -> None:
    settings = RelaySettings((("spark-b-0", "spark-b-0i"),), 0.05, 0.1)
    settings.write(tmp_path / "relay.json")
    assert RelaySettings.read(tmp_path / "relay.json") == settings


def test_the_names_of_the_relays_links_fit_the_kernel(tmp_path: Path) -> None:
    for line in links.relay_lines(LabSpec(root=tmp_path).nodes[1]):
        assert all(len(word) <= 15 for word in line.split())


def test_a_cut_and_its_mending_name_the_same_ports(tmp_path: Path) -> None:
    nodes = LabSpec(root=tmp_path, node_count=4).nodes[1:3]
    assert links.cut_between_lines(nodes, cut=True) == tuple(
        f"link set spark-{node}-{half} type bridge_slave isolated on"
        for node in "bc"
        for half in (0, 1)
    )
    assert links.cut_off_lines(nodes[0], cut=True) == (
        "link set spark-b-0 nomaster",
        "link set spark-b-1 nomaster",
    )
    assert links.cut_off_lines(nodes[0], cut=False) == (
        "link set spark-b-0 master fabric0",
        "link set spark-b-1 master fabric1",
    )
