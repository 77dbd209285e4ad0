"""Docker's two image stores name one image differently; both names are known before it is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from builder.edges.files import read_lock
from builder.progress import Silent
from deploy import pipeline
from tests.integration.stores.conftest import CONTAINERD, GRAPH_DRIVER, Stores, deployed
from tests.integration.verify.conftest import not_passed

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.verify.conftest import Pair

pytestmark = pytest.mark.lab

NODES = (GRAPH_DRIVER, CONTAINERD)
PARENTS_THAT_MATTER = """
[[image.file]] # below a sticky folder that everybody may write to
source = "examples/lab/chat_template.jinja"
target = "/tmp/own/template"

[[image.file]] # through a link of the merged /usr
source = "examples/lab/chat_template.jinja"
target = "/sbin/own-tool"
mode = "0755"

[vllm]
"""


@pytest.fixture(scope="module")
def stores(mixed_pair: Pair) -> Stores:
    """The embedded default, serving on both stores."""
    return deployed(mixed_pair)


def test_each_store_has_the_digest_that_the_committed_lock_foretold(
    stores: Stores, lab_root: Path
) -> None:
    # Other nodes, other folder, other engine; the image is that of the repository's own lock.
    outputs = read_lock(lab_root / "lockfile.json").outputs
    assert stores.inspect(GRAPH_DRIVER)["Id"] == outputs.config_digest
    assert stores.inspect(CONTAINERD)["Id"] == outputs.manifest_digest


def test_both_stores_have_the_locked_layers_in_their_order(stores: Stores) -> None:
    base = [layer.diff_id for layer in stores.lock.image.base.layers]
    own = [layer.digest for layer in stores.lock.outputs.layers]  # plain tar: digest = diff_id
    for node in NODES:
        assert stores.inspect(node)["RootFS"] == {"Type": "layers", "Layers": [*base, *own]}


def test_the_running_ranks_are_of_the_locked_image(stores: Stores) -> None:
    outputs = stores.lock.outputs
    names = {GRAPH_DRIVER: outputs.config_digest, CONTAINERD: outputs.manifest_digest}
    for node, name in names.items():
        container = stores.pair.container(node)
        argv = ["docker", "inspect", "--format", "{{.Image}}", container]
        assert stores.pair.node(node).run(argv).strip() == name


def test_a_second_deploy_recognises_the_image_on_both_and_changes_nothing(stores: Stores) -> None:
    before = [stores.pair.container(node) for node in NODES]
    report = pipeline.deploy(stores.pair.manifest_path, Silent())
    assert not report.changed
    assert "up to date" in report.text()
    assert [stores.pair.container(node) for node in NODES] == before


def test_the_pair_is_verified(stores: Stores) -> None:
    report = stores.pair.verify()
    assert not_passed(report) == set()
    report.require_passed()


@pytest.mark.parametrize("node", NODES)
def test_a_container_has_exactly_the_files_of_the_image(stores: Stores, node: str) -> None:
    assert stores.listing(node) == stores.built


def test_the_built_tree_is_what_the_lock_says(stores: Stores) -> None:
    image, tree = stores.lock.image, stores.built
    assert tree["/lib"][::5] == ["link", "usr/lib"]
    assert tree["/tmp"][:2] == ["dir", 0o1777]  # noqa: S108 - the image's
    assert image.whiteouts
    assert tree.keys().isdisjoint(image.whiteouts)
    for folder in image.base.dirs:
        assert tree[folder.path][1:5] == [
            int(folder.mode, 8), folder.uid, folder.gid, folder.mtime,
        ]  # fmt: skip
    files = {pick.target: pick.digest for pick in image.picks}
    files |= {file.target: file.digest for file in image.files}
    files |= {table.target: table.after for table in image.tables}
    for path, digest in files.items():
        expected = ["file", 0o644, 0, 0, image.epoch, digest.removeprefix("sha256:")]
        assert tree[path] == expected


def test_links_and_sticky_folders_above_our_files_are_the_same_in_both_stores(
    stores: Stores,
) -> None:
    # Left to themselves the stores differ here: one makes a missing parent 0755 root at the time
    # of extraction, and both turn a link that is a parent into a folder.
    pair = stores.pair
    text = pair.manifest_path.read_text()
    pair.manifest_path.write_text(text.replace("\n[vllm]\n", PARENTS_THAT_MATTER))
    changed = deployed(pair)
    assert changed.built["/tmp"][:2] == ["dir", 0o1777]  # noqa: S108 - the image's
    assert changed.built["/sbin"][::5] == ["link", "usr/sbin"]
    assert changed.built["/usr/sbin/own-tool"][:2] == ["file", 0o755]
    for node in NODES:
        assert changed.listing(node) == changed.built
    assert not_passed(pair.verify("image")) == set()
