"""One container against the spec it should have been made from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from builder import labels as keys
from builder.privileges import RDMA_DEVICES
from builder.secret import Secret
from deploy.caches import is_cache
from deploy.drift_facts import Cause, Difference
from deploy.drift_settings import settings
from deploy.launch import Made

if TYPE_CHECKING:
    from collections.abc import Iterator

    from builder.digest import JsonValue
    from deploy.drift_facts import Inspected, Process
    from deploy.drift_settings import Setting
    from deploy.launch import ContainerSpec
    from deploy.wanted import Wanted

CODE: Final = ("/site-packages/", "/dist-packages/")
"""Where Python packages stand: a file that changes below them changes what is served."""

CACHES: Final = ("__pycache__", ".pyc")

PLAN: Final = "`inv plan` shows what would change, `inv deploy` does it"


def of_container(
    wanted: Wanted, spec: ContainerSpec, container: Inspected, name: str
) -> Iterator[Difference]:
    """All that differs in one rank's container, whose name should be `name`."""
    again = _again(spec.node, container.name)
    if container.name != name:
        rename = f"on {spec.node}: docker rename {container.name} {name}"
        yield Difference(spec.node, "name", name, container.name, Cause.PERSON, rename)
    yield from _state(spec.node, container)
    as_labelled = container.labels.get(keys.SPEC_DIGEST) == spec.digest
    found = [*settings(_request(spec, container), container)]
    for setting in found:
        cause = _cause(setting, spec, as_labelled=as_labelled)
        remedy = PLAN if cause is Cause.INPUTS else again
        yield Difference(spec.node, setting.name, setting.expected, setting.found, cause, remedy)
    yield from _image(wanted, spec, container, as_labelled=as_labelled)
    yield from _labels(wanted, spec, container, explained=bool(found))
    yield from _processes(spec, container)
    yield from _files(spec.node, container, again)


def _request(spec: ContainerSpec, container: Inspected) -> dict[str, JsonValue]:
    """What the container was asked for, where only its making has settled it.

    Which files its RDMA devices have, only the node tells; which volume has the caches, the plan
    that made it; a value of the API key is compared by planning, where the key is known.
    """
    env = container.config.get("Env")
    pairs = (str(text).partition("=") for text in (env if isinstance(env, list) else []))
    found = {name: Secret(value) for name, _, value in pairs}
    secrets = {name: found.get(name, Secret("")) for name in spec.secrets}
    devices = _texts(container.host.get("Devices"), "PathOnHost")
    rdma = tuple(path for path in devices if path.startswith(f"{RDMA_DEVICES}/"))
    sources = _texts(container.host.get("Mounts"), "Source")
    caches = [name for name in sources if is_cache(spec.cluster, spec.cache or "", name)]
    return spec.request(Made(rdma or None, secrets, caches[0] if caches else ""))


def _texts(items: JsonValue, key: str) -> list[str]:
    """A value of each of the objects in a list."""
    objects = items if isinstance(items, list) else []
    return [str(item.get(key)) for item in objects if isinstance(item, dict)]


def _state(node: str, container: Inspected) -> Iterator[Difference]:
    what = f"container {container.name}"
    if container.paused:
        remedy = f"on {node}: docker unpause {container.name}"
        yield Difference(node, what, "it runs", "it is paused", Cause.PERSON, remedy)
    elif not container.running:
        ended = f"it has stopped, exit code {container.exit_code}"
        remedy = "`inv logs` shows its end; `inv deploy` makes the pair anew"
        yield Difference(node, what, "it runs", ended, Cause.UNKNOWN, remedy)


def _cause(setting: Setting, spec: ContainerSpec, *, as_labelled: bool) -> Cause:
    """Who changed a setting; `as_labelled` says that the container was made from today's spec."""
    host = spec.request()["HostConfig"]
    assert isinstance(host, dict)
    if as_labelled or (setting.updatable and setting.name not in host):
        return Cause.PERSON
    return Cause.UNKNOWN if setting.updatable else Cause.INPUTS


def _image(
    wanted: Wanted, spec: ContainerSpec, container: Inspected, *, as_labelled: bool
) -> Iterator[Difference]:
    if container.image_id in wanted.image.engine_ids:
        return
    cause = Cause.PERSON if as_labelled else Cause.INPUTS
    remedy = _again(spec.node, container.name) if as_labelled else PLAN
    expected = " or ".join(sorted(wanted.image.engine_ids))
    yield Difference(spec.node, "image", expected, container.image_id, cause, remedy)


def _labels(
    wanted: Wanted, spec: ContainerSpec, container: Inspected, *, explained: bool
) -> Iterator[Difference]:
    """Labels that differ; the spec's is told only when no setting tells what has changed.

    Another lock's digest is none: what it changes of a container is told by itself.
    """
    expected = wanted.labels(spec, container.generation)
    for name, value in sorted(expected.items()):
        found = container.labels.get(name, "none")
        told = name == keys.SPEC_DIGEST and explained
        told = told or (name == keys.LOCK_DIGEST and name in container.labels)
        if found != value and not told:
            yield Difference(spec.node, f"label {name}", value, found, Cause.INPUTS, PLAN)
    for name in sorted({*container.labels} - {*expected} - container.image_labels):
        again = _again(spec.node, container.name)
        found = container.labels[name]
        yield Difference(spec.node, f"label {name}", "none", found, Cause.PERSON, again)


def _processes(spec: ContainerSpec, container: Inspected) -> Iterator[Difference]:
    """A server whose arguments are others, and what was started in the container beside it."""
    inside = {process.pid for process in container.processes}
    health = bool(container.config.get("Healthcheck"))
    for process in container.processes:
        entered = process.pid != container.pid and process.parent not in inside
        if entered and not health:
            found = f"process {process.pid}: {_program(process)}"
            expected = "only what the container started"
            remedy = "end that session; what it changed is named here if it is a file of the server"
            yield Difference(spec.node, "processes", expected, found, Cause.PERSON, remedy)
    yield from _command_line(spec, container)


def _command_line(spec: ContainerSpec, container: Inspected) -> Iterator[Difference]:
    """The live server's arguments; none is judged whose process has given itself another title."""
    if "serve" not in spec.command:
        return
    start = spec.command.index("serve")
    words = " ".join(spec.command[start:])
    serving = " ".join(spec.command[start : start + 2])
    servers = [
        process.args
        for process in container.processes
        if process.pid != container.pid and f" {serving}" in process.args
    ]
    if servers and container.config.get("Cmd") == [*spec.command]:
        for args in servers:
            if not args.endswith(words):
                found = args[args.index(serving) :]
                yield Difference(
                    spec.node,
                    "live command line",
                    words,
                    _first_other(words, found),
                    Cause.UNKNOWN,
                    "look at the image's launcher script; `inv logs` shows what it printed",
                )


def _first_other(expected: str, found: str) -> str:
    """The first word that differs, with those beside it."""
    pairs = enumerate(zip(expected.split(), found.split(), strict=False))
    words = found.split()
    at = next((index for index, (one, other) in pairs if one != other), len(expected.split()))
    return " ".join(("…", *words[max(0, at - 1) : at + 2])) if at < len(words) else "it ends early"


def _program(process: Process) -> str:
    """The program alone: arguments that a person types may be secrets."""
    return process.args.partition(" ")[0]


def _files(node: str, container: Inspected, again: str) -> Iterator[Difference]:
    """Files of the server that the container's own layer has otherwise than the image."""
    folder = str(container.config.get("WorkingDir") or "").rstrip("/")
    kinds = {"A": "it was added", "C": "it was changed", "D": "it was removed"}
    for entry in container.written:
        kind, path = entry.split(" ", 1)
        ours = any(part in path for part in CODE) or (folder and path.startswith(f"{folder}/"))
        if ours and not any(part in path for part in CACHES):
            yield Difference(
                node, f"file {path}", "as in the image", kinds[kind], Cause.PERSON, again
            )


def _again(node: str, name: str) -> str:
    return f"on {node}: docker rm --force {name}; then `inv deploy` makes the pair anew"
