"""pytest, set up for checks: the expectations, the nodes, and a result told of every check."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from builder.errors import Message, NodeError, SparklockError
from builder.secret import Secret
from verify import events
from verify.canary import Canary, Repeats, ask, ask_again
from verify.claim import Claim
from verify.edges.api import Api
from verify.edges.inputs import Inputs, read_inputs
from verify.edges.ssh import Connections
from verify.expected import ExpectedCluster, ExpectedPort, expect
from verify.judge.serving import tokens_of
from verify.observe import ObservedCluster, ObservedNode
from verify.report import GROUPS, USER, Check, CheckResult, fault_of, result_of
from verify.shape import Demand, demand_of, parse_model_shape
from verify.verdict import Finding, Verdict, not_shown

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping

    from builder.lock import Lock

INPUTS = pytest.StashKey[Inputs]()
EXPECTED = pytest.StashKey[ExpectedCluster]()
CHECK = pytest.StashKey[Check]()
CLAIM = pytest.StashKey[Claim]()
PROBLEMS = pytest.StashKey[list[Message]]()
UNLOADED = pytest.StashKey[list[CheckResult]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the manifest, and where to tell results."""
    parser.addoption("--manifest", type=Path, help="cluster.toml, with its lock beside it")
    parser.addoption("--user", action="store_true", help="the checks are not sparklock's own")
    parser.addoption("--against", type=Path, help="the lock to compare with, if another one")
    parser.addoption(
        "--events", type=int, help="file descriptor that gets a line of JSON per event"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Work out what to expect, before anything is collected."""
    path = config.getoption("--manifest")
    if path is None:
        message = "--manifest is missing; inv verify passes it"
        raise pytest.UsageError(message)
    against = config.getoption("--against")
    inputs = read_inputs(path, against)
    config.stash[INPUTS] = inputs
    config.stash[UNLOADED] = []
    config.stash[EXPECTED] = expect(
        inputs.manifest, inputs.lock, inputs.lock_digest, must_be_of_lock=against is not None
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Repeat a check for every node, or for every RDMA device of every node."""
    nodes = metafunc.config.stash[EXPECTED].nodes
    if "node" in metafunc.fixturenames:
        names = [node.name for node in nodes]
        metafunc.parametrize("node", names, ids=names, indirect=True)
    if "port" in metafunc.fixturenames:
        ports = [port for node in nodes for port in node.ports]
        names = [f"{port.node}-{port.hca}" for port in ports]
        metafunc.parametrize("port", ports, ids=names, indirect=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Name every check, let -k find it by that name, and put what others stand on first."""
    items[:] = [item for item in items if _has_subject(item)]
    for item in items:
        assert isinstance(item, pytest.Function)
        check = _check_of(item, config.stash[EXPECTED])
        item.stash[CHECK] = check
        item.stash[PROBLEMS] = []
        item.extra_keyword_matches.add(check.id)
    order = [*GROUPS, USER]
    items.sort(key=lambda item: order.index(item.stash[CHECK].group))


def _has_subject(item: pytest.Item) -> bool:
    """False for what pytest makes of a check per RDMA device where no node lists any."""
    assert isinstance(item, pytest.Function)
    return "port" not in item.fixturenames or isinstance(_params(item).get("port"), ExpectedPort)


def _params(item: pytest.Function) -> Mapping[str, object]:
    return item.callspec.params if hasattr(item, "callspec") else {}


def _check_of(item: pytest.Function, expected: ExpectedCluster) -> Check:
    group = item.path.stem.removeprefix("test_")
    params = _params(item)
    subject, place = "cluster", f"cluster {expected.name}"
    if isinstance(name := params.get("node"), str):
        subject, place = name, expected.node(name).place
    if isinstance(port := params.get("port"), ExpectedPort):
        subject = f"{port.node} {port.hca}"
        place = f"{expected.node(port.node).place}, {port.hca}"
    proves = (item.function.__doc__ or "").partition("\n")[0]
    if item.config.getoption("--user"):
        name = ".".join((group, *item.nodeid.split("::")[1:]))
        return Check(f"{USER}.{name}", subject, place, proves or name)
    return Check(f"{group}.{item.name.removeprefix('test_')}", subject, place, proves)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Tell which checks will run, before the first does."""
    unloaded = session.config.stash[UNLOADED]
    checks = [*(item.check for item in unloaded), *(item.stash[CHECK] for item in session.items)]
    _tell(session.config, events.collected(session.config.stash[EXPECTED].lock_digest, checks))
    for item in unloaded:
        _tell(session.config, events.result(item))


def pytest_exception_interact(
    node: pytest.Item | pytest.Collector,
    call: pytest.CallInfo[Any],
    report: pytest.CollectReport | pytest.TestReport,
) -> None:
    """Note a file of the user's that cannot be loaded; one of ours ends the run."""
    if isinstance(node, pytest.Collector) and node.config.getoption("--user"):
        check = Check(f"{USER}.{node.name}", "cluster", node.nodeid, "The file can be loaded.")
        error = call.excinfo.value if call.excinfo else None
        message = _broken(check, error, report.longreprtext)
        node.config.stash[UNLOADED].append(result_of(check, None, (message,)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Tell how a check ended, by its verdict and by what went wrong in any phase of it."""
    report = yield
    claim = item.stash.get(CLAIM, None)
    verdict = claim.verdict if claim else None
    error = call.excinfo.value if call.excinfo else None
    problems = item.stash[PROBLEMS]
    own_end = verdict is not None and isinstance(
        error, (pytest.fail.Exception, pytest.skip.Exception)
    )
    if isinstance(error, NodeError):
        _tell(item.config, events.unready(error.messages))
        item.session.shouldstop = "a node cannot be checked"
    if item.config.getoption("--user") and call.when == "call" and verdict is None:
        verdict = _verdict_of(item, error)
        if verdict is not None:
            item.stash[CLAIM] = Claim(lambda *_: None)
            item.stash[CLAIM].verdict = verdict
            own_end = True
    if error is not None and not own_end:
        problems += _messages_of(item, error, report)
    if call.when == "teardown":
        ended = result_of(item.stash[CHECK], verdict, tuple(problems))
        _tell(item.config, events.result(ended))
    return report


def _messages_of(
    item: pytest.Item, error: BaseException, report: pytest.TestReport
) -> tuple[Message, ...]:
    if isinstance(error, SparklockError):
        return error.messages
    return (_broken(item.stash[CHECK], error, report.longreprtext),)


def _broken(check: Check, error: BaseException | None, trace: str) -> Message:
    return Message(
        place=check.place,
        what=f"{check.id}: the check itself broke with {type(error).__name__}",
        found=str(error)[:500],
        detail="\n".join(trace.splitlines()[-15:]),
        remedy=fault_of(check),
    )


def _verdict_of(item: pytest.Item, error: BaseException | None) -> Verdict | None:
    """The verdict of a user's check, which asserts; None if it broke."""
    place = item.nodeid.partition("::")[0]
    if error is None:
        return Verdict((f"no assertion of {place} failed",))
    if isinstance(error, pytest.skip.Exception):
        return not_shown(str(error))
    if isinstance(error, AssertionError | pytest.fail.Exception):
        text = str(error)[:500]
        remedy = f"see the check in {place}"
        return Verdict((text,), (Finding("the assertion is false", "true", text, remedy),))
    return None


def _tell(config: pytest.Config, line: str) -> None:
    """Write one event; without --events the checks run as ordinary pytest."""
    descriptor = config.getoption("--events")
    if descriptor is not None:
        os.write(descriptor, line.encode())


@pytest.fixture(scope="session")
def expected(pytestconfig: pytest.Config) -> ExpectedCluster:
    """What the manifest and the lock let us expect."""
    return pytestconfig.stash[EXPECTED]


@pytest.fixture(scope="session")
def lock(pytestconfig: pytest.Config) -> Lock:
    """The lock that the nodes are compared with."""
    return pytestconfig.stash[INPUTS].lock


@pytest.fixture(scope="session")
def connections(pytestconfig: pytest.Config) -> Iterator[Connections]:
    """One ssh connection per node for the whole session."""
    inputs = pytestconfig.stash[INPUTS]
    with Connections(inputs.manifest, inputs.folder) as opened:
        yield opened


@pytest.fixture(scope="session")
def cluster(
    pytestconfig: pytest.Config, expected: ExpectedCluster, connections: Connections
) -> ObservedCluster:
    """All nodes, reached and with an engine that answers."""
    nodes = pytestconfig.stash[INPUTS].manifest.nodes
    observed = ObservedCluster(expected, nodes, connections.host)
    observed.probe()
    return observed


@pytest.fixture
def node(cluster: ObservedCluster, request: pytest.FixtureRequest) -> ObservedNode:
    """The node that the check is about."""
    return cluster.node(request.param)


@pytest.fixture
def port(request: pytest.FixtureRequest) -> ExpectedPort:
    """The RDMA device that the check is about."""
    found: ExpectedPort = request.param
    return found


@pytest.fixture
def claim(request: pytest.FixtureRequest, record_property: Callable[[str, Any], None]) -> Claim:
    """What the check states its verdict with."""
    found = Claim(record_property)
    request.node.stash[CLAIM] = found
    return found


@pytest.fixture(scope="session")
def api(
    pytestconfig: pytest.Config,
    expected: ExpectedCluster,
    connections: Connections,
    cluster: ObservedCluster,
) -> Api:
    """The server's API, through the head's ssh connection; nothing need be installed there.

    Its key is the one that clients are given, else the one that the server was.
    """
    head = pytestconfig.stash[INPUTS].manifest.head
    local = connections.forward(head, expected.api_host, expected.api_port)
    if expected.api_key_env is None:
        return Api(local)
    own = os.environ.get(expected.api_key_env)
    return Api(local, Secret(own) if own else cluster.node(head.name).container.api_key)


@pytest.fixture(scope="session")
def canary(cluster: ObservedCluster, api: Api) -> Canary:
    """Two completions for all checks that look at them or at what they moved."""
    return ask(cluster, api, nonce=uuid.uuid4().hex)


@pytest.fixture(scope="session")
def demand(expected: ExpectedCluster, cluster: ObservedCluster, canary: Canary) -> Demand | None:
    """What the canary makes tensor parallelism send, by the model's own config.json."""
    text = cluster.nodes[0].run("cat", "--", expected.head.model_config)
    shape = parse_model_shape(text, expected.dtype)
    return demand_of(expected, shape, tokens_of(canary.short), tokens_of(canary.long))


@pytest.fixture(scope="session")
def repeats(cluster: ObservedCluster, api: Api, canary: Canary) -> Repeats:
    """The canary's longer completion, asked again alone and then twice at once."""
    return ask_again(cluster, api, canary, salts=[uuid.uuid4().hex for _ in range(3)])
