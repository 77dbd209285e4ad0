"""(wanted, witnessed) -> what differs, and who changed it as far as it can be known.

A container's labels never change, and neither does most of what it was created with. So a label
that is not the wanted one says that manifest, lock or sparklock changed since the deploy; and a
setting that its own label contradicts was changed by a person, on the node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from deploy.drift_container import of_container
from deploy.drift_facts import Cause, Difference
from deploy.drift_settings import count
from deploy.generations import history_of
from deploy.state import Standing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from builder.digest import Digest
    from deploy.drift_facts import Inspected, Witnessed
    from deploy.launch import ContainerSpec
    from deploy.wanted import Wanted

DEPLOY: Final = "run `inv deploy`"
RESTARTED: Final = "`inv verify` says whether the pair serves; else `inv stop`, `inv deploy`"


def current(nodes: Mapping[str, Witnessed]) -> int:
    """The number of the generation that is to serve; 0 if none was ever confirmed."""
    found = history_of({name: view.state.containers for name, view in nodes.items()}).current
    return 0 if found is None else found.number


def compare(wanted: Wanted, nodes: Mapping[str, Witnessed]) -> tuple[Difference, ...]:
    """All that differs, node by node in the manifest's order."""
    generation = current(nodes)
    if not generation:
        node = wanted.specs[0].node
        nothing = "no generation was ever confirmed"
        return (
            Difference(
                node, "deployment", "the locked pair", nothing, Cause.UNKNOWN, "run `inv deploy`"
            ),
        )
    return tuple(
        difference
        for spec in wanted.specs
        if spec.node in nodes
        for difference in _of_node(wanted, spec, generation, nodes)
    )


def compared(wanted: Wanted, nodes: Mapping[str, Witnessed]) -> int:
    """How many settings and model files are compared on all nodes."""
    specs = [spec for spec in wanted.specs if spec.node in nodes]
    return sum(count(spec.request()) + len(wanted.model_files) for spec in specs)


def _settled(item: Inspected) -> bool:
    return Standing.of(item.name) is Standing.CURRENT


def _of_node(
    wanted: Wanted, spec: ContainerSpec, generation: int, nodes: Mapping[str, Witnessed]
) -> Iterator[Difference]:
    node = nodes[spec.node]
    name = spec.name(generation)
    own = [item for item in node.containers if _settled(item) and item.generation == generation]
    ranks = [item for item in own if item.rank == spec.rank]
    if ranks:
        container = next((item for item in ranks if item.name == name), ranks[0])
        yield from of_container(wanted, spec, container, name)
        yield from _restarts(spec.node, container, nodes, generation)
        own.remove(container)
    else:
        lost = "nothing of that rank"
        yield Difference(spec.node, f"container {name}", "it runs", lost, Cause.PERSON, DEPLOY)
    for extra in (*own, *(item for item in node.containers if _lingers(item, generation))):
        yield _extra(spec.node, extra.name, "runs beside it" if extra.running else "is there too")
    for stranger in node.strangers:
        yield _extra(spec.node, stranger.name, f"runs {stranger.image}, and is not sparklock's")
    yield from _tag(wanted, node)
    yield from _model(wanted, node)


def _lingers(item: Inspected, generation: int) -> bool:
    """Whether a container of another generation runs."""
    return item.running and item.generation != generation


def _extra(node: str, name: str, found: str) -> Difference:
    remedy = f"on {node}: docker rm --force {name}, if nobody needs it"
    return Difference(node, f"container {name}", "no such container", found, Cause.PERSON, remedy)


def _restarts(
    node: str, container: Inspected, nodes: Mapping[str, Witnessed], generation: int
) -> Iterator[Difference]:
    """Starts that other ranks did not have: ranks meet once, when they start together."""
    what, expected = f"container {container.name}", "it started with the other ranks"
    if container.restarts:
        found = f"the engine has started it again {container.restarts} times"
        yield Difference(node, what, expected, found, Cause.UNKNOWN, RESTARTED)
        return
    others = [
        item
        for view in nodes.values()
        for item in view.containers
        if _settled(item) and item.generation == generation and item.rank != container.rank
    ]
    if container.running and container.ended and not all(item.ended for item in others):
        found = "it was started again, alone"
        yield Difference(node, what, expected, found, Cause.PERSON, RESTARTED)


def _tag(wanted: Wanted, node: Witnessed) -> Iterator[Difference]:
    image = node.state.image
    if wanted.image.is_image(image):
        return
    expected, found = f"image {_short(wanted.image.config_digest)}", "no image"
    if image is not None:
        found = f"image {_short(image.engine_id)}"
    cause = Cause.PERSON if node.state.untagged else Cause.UNKNOWN
    tag = f"tag {wanted.image.reference}"
    yield Difference(node.state.node, tag, expected, found, cause, DEPLOY)


def _model(wanted: Wanted, node: Witnessed) -> Iterator[Difference]:
    there = {file.path: file for file in node.state.model_files}
    for file in wanted.model_files:
        facts = there.get(file.path)
        if facts is not None and facts.digest == file.digest:
            continue
        expected, found = f"{_short(file.digest)}, {file.size_bytes} B", "no such file"
        if facts is not None:
            digest = "another" if facts.digest is None else _short(facts.digest)
            found = f"{digest}, {facts.size_bytes} B"
        remedy = "`inv deploy` brings the locked file and makes the pair anew"
        yield Difference(
            node.state.node, f"model file {file.path}", expected, found, Cause.DISK, remedy
        )


def _short(digest: Digest | str) -> str:
    _, _, text = digest.partition("sha256:")
    return text[:12]
