from __future__ import annotations

from typing import TYPE_CHECKING

from deploy.generations import history_of
from deploy.generations_gc import Garbage, Sweep, sort_out
from deploy.state import ImageName
from tests.unit.deploy.clusters import container, wanted

if TYPE_CHECKING:
    from deploy.generations import History
    from deploy.state import ContainerFacts

GOAL = wanted()
A, B = "spark-a", "spark-b"


def facts(rank: int, generation: int, end: str, *, running: bool = False) -> ContainerFacts:
    return container(
        GOAL,
        rank,
        generation,
        name=f"sparklock-pair-g{generation}-r{rank}{end}",
        image=f"sparklock/pair:{generation}",
        image_id=f"sha256:{generation}",
        running=running,
    )


def history() -> History:
    """Three superseded generations, of which the second has lost a rank, and a failed one."""
    ends = {1: ".old", 2: ".old", 3: ".old", 4: "", 5: ".failed"}
    a = [facts(0, number, end, running=number == 4) for number, end in ends.items()]
    b = [facts(1, n, end, running=n == 4) for n, end in ends.items() if n != 2]
    return history_of({A: a, B: b})


IMAGES = [ImageName(f"sparklock/pair:{number}", f"sha256:{number}") for number in (1, 2, 3, 4, 7)]


def test_the_current_generation_and_the_newest_others_that_can_serve_are_kept() -> None:
    kept = sort_out(history(), {A: IMAGES, B: IMAGES}, keep=2)
    assert kept.generations == (4, 3, 1)
    assert kept.garbage[A] == Garbage(
        ("sparklock-pair-g2-r0.old", "sparklock-pair-g5-r0.failed"),
        ("sparklock/pair:2", "sparklock/pair:7"),
    )
    assert kept.garbage[B].containers == ("sparklock-pair-g5-r1.failed",)


def test_with_none_to_keep_the_current_one_stays_and_its_image() -> None:
    kept = sort_out(history(), {A: IMAGES, B: []}, keep=0, spared="sparklock/pair:7")
    assert kept.generations == (4,)
    assert kept.garbage[A].images == tuple(f"sparklock/pair:{n}" for n in (1, 2, 3))
    assert len(kept.garbage[B].containers) == 3


def test_what_runs_is_never_removed_nor_its_image() -> None:
    found = history_of({A: [facts(0, 1, ".trial", running=True), facts(0, 2, ".old")], B: []})
    kept = sort_out(found, {A: IMAGES, B: []}, keep=0)
    assert kept.garbage[A].containers == ("sparklock-pair-g2-r0.old",)
    assert "sparklock/pair:1" not in kept.garbage[A].images


def test_the_name_of_a_tunnel_goes_also_from_an_image_that_stays() -> None:
    left = ImageName("127.0.0.1:4000/sparklock/pair@sha256:4", "sha256:4")
    kept = sort_out(history(), {A: [*IMAGES, left], B: []}, keep=9)
    assert kept.garbage[A].images == ("sparklock/pair:2", "sparklock/pair:7", left.name)


def test_what_went_is_told_node_by_node() -> None:
    kept = sort_out(history(), {A: IMAGES, B: []}, keep=9)
    sweep = Sweep("pair", kept, dry_run=True, in_use=((A, "sparklock/pair:7"),))
    text = sweep.text()
    assert "kept generations 4, 3, 1" in text
    assert "spark-a  would go  sparklock-pair-g2-r0.old" in text
    assert "spark-a  kept      image sparklock/pair:7, which is in use" in text
    assert sweep.as_json() == {
        "kept": [4, 3, 1],
        "nodes": {
            A: {
                "containers": ["sparklock-pair-g2-r0.old", "sparklock-pair-g5-r0.failed"],
                "images": ["sparklock/pair:2"],
                "in_use": ["sparklock/pair:7"],
                "caches": [],
            },
            B: {
                "containers": ["sparklock-pair-g5-r1.failed"],
                "images": [],
                "in_use": [],
                "caches": [],
            },
        },
    }
