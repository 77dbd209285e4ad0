"""[[image.accept]]: a finding that is accepted is locked with its reason, and the image stays."""

from __future__ import annotations

import json

import pytest

from builder.graft.acceptance import ClosureError
from builder.lock import LockedAcceptance, named_digests
from builder.oci.errors import MissingLayoutError
from builder.pipeline_errors import StaleLockError
from tests.project import BASE, SITE, VENV, Project, changed_paths, package, rewritten
from tests.unit.oci.archives import file, tar_of
from tests.unit.pipeline.test_donor_once import reads_donor

MODELS = "vllm.model_executor.models"
OVERRIDE = f"override {MODELS}.new:New.build of {MODELS}.old:Old"
MODEL_TYPE = "model_type new"
DONOR = package(
    VENV,
    {
        "registry.py": '_MODELS = {"New": ("new", "New")}\n',
        "new.py": "from .old import Old\n\nclass New(Old):\n    def build(self): ...\n",
        "old.py": "class Old:\n    def build(self): ...\n",
    },
    version="2.0",
)
CONFIG = file(
    f"{SITE}/vllm/transformers_utils/config.py", b'_CONFIG_REGISTRY = {"old": "OldConfig"}\n'
)


def accept(project: Project, *names: str, reason: str = "we call it ourselves") -> Project:
    """The project with these findings accepted, and no others."""
    head, _, rest = project.file.read_text().partition("[vllm]")
    entries = "".join(
        f"[[image.accept]]\nfinding = {json.dumps(name)}\nreason = {json.dumps(reason)}\n\n"
        for name in names
    )
    project.file.write_text(f"{head.partition('[[image.accept]]')[0]}{entries}[vllm]{rest}")
    return project


def model_type(project: Project, name: str) -> None:
    """Let the checkpoint be of this model type."""
    project.write("model/config.json", json.dumps({"architectures": ["New"], "model_type": name}))


@pytest.fixture
def judged(project: Project) -> Project:
    """A project with two findings: one that the donor decides, and one that needs none."""
    model_type(project, "new")
    return project.base(tar_of(*BASE, CONFIG)).donor(tar_of(*DONOR))


def refused(project: Project) -> list[str]:
    """The names of the findings for which locking is refused, entries that accept none included."""
    before = project.lock_file.read_bytes() if project.lock_file.exists() else None
    with pytest.raises(ClosureError) as caught:
        project.lock()
    assert caught.value.exit_code == 4
    assert (project.lock_file.read_bytes() if project.lock_file.exists() else None) == before
    return [
        getattr(item, "identity", None) or f"stale {item.finding}"  # type: ignore[attr-defined]
        for item in caught.value.findings
    ]


def test_what_a_refused_lock_writes_out_is_accepted_once_it_has_a_reason(judged: Project) -> None:
    with pytest.raises(ClosureError) as caught:
        judged.lock()
    lines = "\n\n".join(
        message.remedy.partition("with a reason:\n")[2] for message in caught.value.messages
    )
    judged.edit("[vllm]", lines.replace('reason = ""', 'reason = "no harm"') + "\n\n[vllm]")

    report = judged.lock()

    assert report.lock.image.accepted == (
        LockedAcceptance(finding=MODEL_TYPE, reason="no harm"),
        LockedAcceptance(finding=OVERRIDE, reason="no harm"),
    )
    notes = [f"  note: accepted: {name}; reason: no harm" for name in (MODEL_TYPE, OVERRIDE)]
    assert report.text().splitlines()[-2:] == notes
    assert judged.lock().text().splitlines()[1:] == notes
    assert judged.check().lock == report.lock
    judged.build(locked=True)


def test_each_finding_needs_an_acceptance_of_its_own(judged: Project) -> None:
    assert refused(judged) == [OVERRIDE, MODEL_TYPE]
    assert refused(accept(judged, MODEL_TYPE)) == [OVERRIDE]
    accept(judged, OVERRIDE, MODEL_TYPE).lock()
    assert refused(accept(judged, OVERRIDE)) == [MODEL_TYPE]


def test_an_acceptance_is_no_part_of_the_image(judged: Project) -> None:
    first = accept(judged, OVERRIDE, MODEL_TYPE).lock().lock
    second = accept(judged, MODEL_TYPE, OVERRIDE, reason="sha256:because").lock().lock

    assert first.cluster_digest != second.cluster_digest
    assert first.inputs_digest == second.inputs_digest
    assert first.outputs == second.outputs
    assert not any("because" in digest for digest in named_digests(second))


def test_a_lock_without_acceptances_has_no_word_of_them(project: Project) -> None:
    project.lock()
    assert "accepted" not in project.lock_file.read_text()


def test_another_reason_is_a_difference_of_the_lock(judged: Project) -> None:
    accept(judged, OVERRIDE, MODEL_TYPE).lock()
    accept(judged, OVERRIDE, MODEL_TYPE, reason="another")

    with pytest.raises(StaleLockError) as caught:
        judged.check()
    told = [
        f"image.accepted[{MODEL_TYPE}].reason",
        f"image.accepted[{OVERRIDE}].reason",
    ]
    assert changed_paths(caught.value) == ["the manifest"]
    assert [change.path for change in judged.lock().changes] == ["cluster_digest", *told]


def test_a_reason_that_was_changed_in_the_lock_by_hand_is_found(judged: Project) -> None:
    accept(judged, OVERRIDE, MODEL_TYPE).lock()
    rewritten(judged, lambda lock: lock["image"]["accepted"][0].update(reason="better"))

    with pytest.raises(StaleLockError) as caught:
        judged.check()
    assert changed_paths(caught.value) == [f"image.accepted[{MODEL_TYPE}].reason"]


def test_what_is_accepted_in_vain_is_refused(judged: Project, project: Project) -> None:
    accept(judged, OVERRIDE, MODEL_TYPE, "model_type other").edit(
        'finding = "model_type other"', 'finding = "model_type newer"'
    )
    assert refused(judged) == ["stale model_type newer"]
    with pytest.raises(ClosureError, match=r"cluster\.toml:\d+: image\.accept\[2\]"):
        project.lock()


def test_an_acceptance_whose_finding_is_gone_is_refused_with_and_without_the_donor(
    judged: Project,
) -> None:
    accept(judged, OVERRIDE, MODEL_TYPE).lock()
    model_type(judged, "old")
    assert refused(judged) == [f"stale {MODEL_TYPE}"]

    judged.remove("images/donor")
    assert refused(judged) == [f"stale {MODEL_TYPE}"]
    model_type(judged, "new")
    assert not judged.lock().changes


def test_an_acceptance_is_not_judged_while_an_import_is_open(judged: Project) -> None:
    accept(judged, OVERRIDE, MODEL_TYPE, "model_type other")
    judged.donor(
        tar_of(*DONOR[:-2], file(f"{VENV}/vllm/model_executor/models/new.py", b"import vllm.no\n"))
    )
    with pytest.raises(ClosureError) as caught:
        judged.lock()
    assert [type(item).__name__ for item in caught.value.findings] == [
        "OpenImport",
        "MissingClass",
        "MissingClass",
    ]


def test_with_the_same_findings_accepted_the_donor_is_not_read_again(judged: Project) -> None:
    accept(judged, OVERRIDE, MODEL_TYPE).lock()
    judged.edit("max-model-len = 256", "max-model-len = 512")
    accept(judged, OVERRIDE, MODEL_TYPE, reason="another")

    assert not reads_donor(judged)
    assert {item.reason for item in judged.read_lock().image.accepted} == {"another"}
    again = judged.lock_file.read_bytes()
    judged.lock_file.unlink()
    assert reads_donor(judged)
    assert judged.lock_file.read_bytes() == again


@pytest.mark.parametrize("names", [[MODEL_TYPE], [OVERRIDE, MODEL_TYPE, "call a of b"]])
def test_with_others_accepted_it_is(judged: Project, names: list[str]) -> None:
    accept(judged, OVERRIDE, MODEL_TYPE).lock()
    accept(judged, *names)
    assert refused(judged) == [OVERRIDE if len(names) == 1 else "stale call a of b"]

    judged.remove("images/donor")
    with pytest.raises(MissingLayoutError):
        judged.lock()
