from __future__ import annotations

from dataclasses import replace

import pytest

from builder.digest import digest_bytes, hex_of
from tests.unit.verify import samples
from verify.judge import image as judge
from verify.parse import EngineFacts
from verify.processes import PathFacts

GRAPH = EngineFacts("20.10.24", containerd_store=False)
CONTAINERD = EngineFacts("29.1.3", containerd_store=True)
IMAGE = samples.expected().image
SCRIPT = "/workspace/run-cluster-node.sh"


def test_a_graph_driver_names_the_image_by_its_config() -> None:
    assert judge.identity(IMAGE, GRAPH, samples.container()).holds


def test_the_containerd_store_names_the_image_by_its_manifest() -> None:
    container = replace(samples.container(), engine_id=samples.MANIFEST)
    assert judge.identity(IMAGE, CONTAINERD, container).holds


@pytest.mark.parametrize("engine", [GRAPH, CONTAINERD])
def test_another_image_is_found(engine: EngineFacts) -> None:
    other = replace(samples.container(), engine_id=digest_bytes(b"other"))
    (finding,) = judge.identity(IMAGE, engine, other).findings
    assert finding.found == digest_bytes(b"other")


def test_the_name_of_the_other_store_is_not_accepted() -> None:
    container = replace(samples.container(), engine_id=samples.MANIFEST)
    assert judge.identity(IMAGE, GRAPH, container).findings


def test_the_locked_layers_are_accepted() -> None:
    assert judge.layers(IMAGE, [samples.BASE_DIFF_ID, samples.OUR_LAYER]).holds


@pytest.mark.parametrize(
    ("diff_ids", "place"),
    [
        ([samples.OUR_LAYER, samples.BASE_DIFF_ID], "layer 0"),
        ([samples.BASE_DIFF_ID], "layer 1"),
        ([samples.BASE_DIFF_ID, samples.OUR_LAYER, samples.OUR_LAYER], "layer 2"),
        ([], "layer 0"),
    ],
)
def test_layers_swapped_missing_or_added_are_found_with_their_place(
    diff_ids: list[str], place: str
) -> None:
    (finding,) = judge.layers(IMAGE, diff_ids).findings
    assert place in finding.what


def test_files_with_the_locked_bytes_are_accepted_and_each_is_evidence() -> None:
    verdict = judge.files(IMAGE, samples.inside())
    assert verdict.holds
    assert len(verdict.evidence) == len(IMAGE.files)


@pytest.mark.parametrize("path", sorted(IMAGE.files))
@pytest.mark.parametrize(
    "facts",
    [PathFacts("file", sha256="0" * 64), PathFacts("absent"), PathFacts("directory")],
)
def test_any_file_that_is_changed_or_gone_is_found(path: str, facts: PathFacts) -> None:
    (finding,) = judge.files(IMAGE, samples.inside(paths={path: facts})).findings
    assert path in finding.what
    assert finding.expected == IMAGE.files[path]


def test_a_file_that_was_not_looked_at_is_found() -> None:
    inside = replace(samples.inside(), paths={})
    assert len(judge.files(IMAGE, inside).findings) == len(IMAGE.files)


def test_a_lock_without_files_has_none_to_show() -> None:
    assert judge.files(replace(IMAGE, files={}), samples.inside()).not_shown


def test_a_stale_file_that_is_back_is_found() -> None:
    (path,) = IMAGE.absent
    assert judge.stale_files(IMAGE, samples.inside()).holds
    back = PathFacts("file", sha256=hex_of(samples.OWN))
    assert judge.stale_files(IMAGE, samples.inside(paths={path: back})).findings
    assert judge.stale_files(IMAGE, replace(samples.inside(), paths={})).findings


def test_programs_that_can_be_started_are_accepted() -> None:
    verdict = judge.executables(IMAGE, samples.inside())
    assert verdict.holds
    assert len(verdict.evidence) == 3


@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        (PathFacts("absent"), "absent"),
        (PathFacts("directory"), "directory"),
        (PathFacts("file", executable=False), "present, but not executable"),
        (
            PathFacts(
                "file", executable=True, interpreter="/bin/zsh", interpreter_executable=False
            ),
            "interpreter /bin/zsh",
        ),
    ],
)
def test_a_script_that_cannot_be_started_is_found_with_the_reason(
    facts: PathFacts, problem: str
) -> None:
    (finding,) = judge.executables(IMAGE, samples.inside(paths={SCRIPT: facts})).findings
    assert f"node script {SCRIPT}" in finding.what
    assert problem in finding.found
