from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from deploy import node_errors
from deploy.edges import programs
from deploy.edges.master import Destination
from deploy.edges.ssh import NodeConnection
from tests.contract.deploy.conftest import free_port, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.contract.deploy.conftest import Sshd

pytestmark = pytest.mark.lab
ROOT = Path(__file__).resolve().parents[3]


def test_an_argument_arrives_as_it_is(connection: NodeConnection) -> None:
    arguments = ("", "two words", "it's", '"$HOME"', "a\nb", "*", "ünï", "--", "; exit 3", "\\")
    done = connection.run(("printf", "%s\\0", *arguments))
    assert done.stdout.decode().split("\0")[:-1] == list(arguments)


def test_stdin_arrives_and_stdout_returns_as_bytes(connection: NodeConnection) -> None:
    data = bytes(range(256)) * 1000
    assert connection.run(("cat",), stdin=data).stdout == data


def test_a_failed_command_is_told_with_its_status_and_the_end_of_stderr(
    connection: NodeConnection,
) -> None:
    with pytest.raises(node_errors.RemoteCommandError) as caught:
        connection.run(("ls", "/no/such/place"))
    assert caught.value.status == 2
    assert "No such file or directory" in caught.value.detail
    assert "ls /no/such/place" in str(caught.value)


def test_a_status_that_is_expected_is_a_result(connection: NodeConnection) -> None:
    assert connection.run(("test", "-e", "/no"), ok=(0, 1)).status == 1


def test_a_command_of_status_255_is_no_lost_connection(connection: NodeConnection) -> None:
    with pytest.raises(node_errors.RemoteCommandError):
        connection.run(("sh", "-c", "exit 255"))


def test_a_command_that_takes_too_long_is_given_up(connection: NodeConnection) -> None:
    with pytest.raises(node_errors.RemoteCommandError) as caught:
        connection.run(("sleep", "60"), timeout_s=0.5)
    assert caught.value.status is None
    assert "took too long" in str(caught.value)


def unknown_key(sshd: Sshd) -> Destination:
    return sshd.destination(sshd.add_host("unknown", UserKnownHostsFile="/dev/null"))


def changed_key(sshd: Sshd) -> Destination:
    kind, key, *_ = (sshd.folder / "key.pub").read_text().split()
    known = sshd.folder / "changed_hosts"
    known.write_text(f"[127.0.0.1]:{sshd.port} {kind} {key}\n")
    return sshd.destination(sshd.add_host("changed", UserKnownHostsFile=str(known)))


def wrong_key(sshd: Sshd) -> Destination:
    host = sshd.add_host("denied", IdentityFile=str(sshd.folder / "host_key"))
    return sshd.destination(host)


def no_listener(sshd: Sshd) -> Destination:
    return sshd.destination(sshd.add_host("refused", Port=str(free_port())))


def no_name(sshd: Sshd) -> Destination:
    return sshd.destination(sshd.add_host("nameless", HostName="spark-a.invalid"))


@pytest.mark.parametrize(
    ("reach", "kind", "remedy"),
    [
        (unknown_key, node_errors.HostKeyUnknownError, "ssh_config unknown"),
        (changed_key, node_errors.HostKeyChangedError, "ssh-keygen -R"),
        (wrong_key, node_errors.SshPermissionError, "ssh-copy-id denied"),
        (no_listener, node_errors.NodeRefusedError, "start sshd"),
        (no_name, node_errors.NodeUnresolvedError, "add Host nameless"),
    ],
)
def test_each_way_that_ssh_fails_is_told_apart_with_its_remedy(
    sshd: Sshd,
    reach: Callable[[Sshd], Destination],
    kind: type[node_errors.SshError],
    remedy: str,
) -> None:
    with pytest.raises(node_errors.SshError) as caught:
        NodeConnection(reach(sshd))
    assert type(caught.value) is kind
    (message,) = caught.value.messages
    assert message.place == "node spark-a"
    assert remedy in message.remedy
    assert message.detail


def test_a_machine_without_ssh_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(node_errors.SshMissingError, match="openssh-client"):
        NodeConnection(Destination("spark-a", "spark-a", None, 1))


def test_a_node_that_accepts_and_never_speaks_is_unreachable(sshd: Sshd) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = str(silent.getsockname()[1])
        host = sshd.add_host("silent", Port=port)
        with pytest.raises(node_errors.NodeUnreachableError):
            NodeConnection(sshd.destination(host, timeout_s=1))


def test_a_shell_that_prints_is_refused_before_it_spoils_an_answer(
    start_sshd: Callable[..., Sshd],
) -> None:
    noisy = start_sshd('ForceCommand echo "Welcome!"; eval "$SSH_ORIGINAL_COMMAND"')
    with pytest.raises(node_errors.NoisyShellError) as caught:
        NodeConnection(noisy.destination())
    assert "Welcome!" in str(caught.value)


def test_a_users_own_forwards_commands_and_control_sockets_do_no_harm(sshd: Sshd) -> None:
    host = sshd.add_host(
        "busy",
        LocalForward=f"127.0.0.1:{sshd.port} 127.0.0.1:1",
        RemoteCommand="echo mine",
        RequestTTY="force",
        ControlMaster="auto",
        ControlPath=str(sshd.folder / "theirs"),
        ControlPersist="yes",
        ExitOnForwardFailure="yes",
    )
    with NodeConnection(sshd.destination(host)) as busy:
        assert busy.run(("echo", "ours")).stdout == b"ours\n"
    assert not (sshd.folder / "theirs").exists()


def test_the_fast_cipher_comes_first_and_none_that_the_user_does_not_allow(
    sshd: Sshd, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A program before the real ssh writes down what it is called with."""
    calls, ssh = tmp_path / "calls", shutil.which("ssh")
    program = tmp_path / "ssh"
    program.write_text(f'#!/bin/sh\necho "$@" >> {calls}\nexec {ssh} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    allowed = "aes256-ctr,aes128-gcm@openssh.com"
    with NodeConnection(sshd.destination(sshd.add_host("both", Ciphers=allowed))):
        pass
    assert "Ciphers=aes128-gcm@openssh.com,aes256-ctr " in calls.read_text()
    calls.unlink()
    with NodeConnection(sshd.destination(sshd.add_host("strict", Ciphers="aes256-ctr"))):
        pass
    assert "Ciphers=" not in calls.read_text()


def test_a_port_of_ours_is_reached_from_the_nodes_loopback_while_the_block_lasts(
    connection: NodeConnection,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)

        def greet() -> None:
            client, _ = server.accept()
            with client:
                client.sendall(b"hello")

        thread = threading.Thread(target=greet)
        thread.start()
        with connection.forward_remote(server.getsockname()[1]) as port:
            with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
                assert client.recv(5) == b"hello"
            thread.join()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=10)


def test_forbidden_forwarding_is_told_with_the_setting_to_change(
    start_sshd: Callable[..., Sshd],
) -> None:
    strict = start_sshd("AllowTcpForwarding no")
    with (
        NodeConnection(strict.destination()) as connection,
        pytest.raises(node_errors.ForwardingForbiddenError, match="AllowTcpForwarding"),
        connection.forward_remote(1),
    ):
        pass


def test_a_forbidden_socket_is_told_apart_from_a_missing_and_a_dead_one(
    start_sshd: Callable[..., Sshd], connection: NodeConnection, tmp_path: Path
) -> None:
    dead = tmp_path / "dead.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(dead))
    missing = connection.socket_problem(str(tmp_path / "none.sock"))
    assert isinstance(missing, node_errors.EngineSocketMissingError)
    assert isinstance(connection.socket_problem(str(dead)), node_errors.EngineStoppedError)
    strict = start_sshd("AllowStreamLocalForwarding no")
    live = tmp_path / "live.sock"
    with (
        NodeConnection(strict.destination()) as forbidden,
        socket.socket(socket.AF_UNIX) as listener,
    ):
        listener.bind(str(live))
        listener.listen()
        assert answer_through(forbidden.forward_socket(str(live))) == b""
        problem = forbidden.socket_problem(str(live))
        assert isinstance(problem, node_errors.ForwardingForbiddenError)


def test_a_forbidden_port_is_told_apart_from_one_where_nothing_listens_yet(
    start_sshd: Callable[..., Sshd], connection: NodeConnection
) -> None:
    strict = start_sshd("AllowTcpForwarding no")
    with NodeConnection(strict.destination()) as forbidden:
        for each, expected in ((connection, False), (forbidden, True)):
            assert answer_through(each.forward_local("127.0.0.1", free_port())) == b""
            assert each.forwards_forbidden() is expected


def answer_through(local: Path) -> bytes:
    """What the far end says to a new client of a forwarded socket."""
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(local))
        client.settimeout(10)
        return client.recv(1)


def test_a_socket_that_the_ssh_user_may_not_use_is_told_with_the_group_to_join(
    start_sshd: Callable[..., Sshd],
) -> None:
    as_nobody = 'setpriv --reuid=65534 --regid=65534 --clear-groups sh -c "$SSH_ORIGINAL_COMMAND"'
    weak = start_sshd(f"ForceCommand {as_nobody}")
    # Not in pytest's folders: nobody else may look into those.
    path = Path("/run") / f"sparklock-test-{os.getpid()}.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        try:
            path.chmod(0o660)
            with NodeConnection(weak.destination()) as connection:
                problem = connection.socket_problem(str(path))
        finally:
            path.unlink()
    assert isinstance(problem, node_errors.EngineSocketDeniedError)
    assert "group docker" in str(problem)


def test_a_connection_that_breaks_is_lost_and_not_a_failed_command(sshd: Sshd) -> None:
    with NodeConnection(sshd.destination()) as connection:
        parent = connection.run(("sh", "-c", "cut -d' ' -f4 /proc/$PPID/stat; echo $PPID")).stdout
        os.kill(int(parent.split()[-1]), signal.SIGKILL)
        until(lambda: not connection.alive())
        with pytest.raises(node_errors.NodeLostError):
            connection.run(("true",))


def test_a_connection_whose_process_hangs_is_lost_and_can_be_closed(
    sshd: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = NodeConnection(sshd.destination())
    master = connection._master.process
    os.kill(master.pid, signal.SIGSTOP)
    try:
        monkeypatch.setattr(programs, "CALL_S", 0.5)
        with pytest.raises(node_errors.NodeLostError, match="does not answer"):
            connection.forward_socket("/run/any.sock")
    finally:
        connection.close()
    assert master.poll() == -signal.SIGKILL


def test_closing_one_connection_leaves_the_other(sshd: Sshd) -> None:
    first, second = (NodeConnection(sshd.destination()) for _ in range(2))
    first.close()
    first.close()
    assert not first.alive()
    assert second.run(("echo", "here")).stdout == b"here\n"
    second.close()


def test_a_killed_controller_leaves_no_connection_behind(sshd: Sshd) -> None:
    program = (
        "import sys, pathlib; from deploy.edges.master import *; from deploy.edges.ssh import *\n"
        f"c = NodeConnection(Destination('n', 'node', pathlib.Path({str(sshd.config)!r}), 5))\n"
        "print(c._master.process.pid, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as controller:
        assert controller.stdout is not None
        master = int(controller.stdout.readline())
        controller.kill()
    until(lambda: not Path(f"/proc/{master}").exists())


def test_an_interrupt_at_the_terminal_does_not_cut_the_connection(sshd: Sshd) -> None:
    program = (
        "import sys, pathlib, signal\n"
        "from deploy.edges.master import *; from deploy.edges.ssh import *\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        f"c = NodeConnection(Destination('n', 'node', pathlib.Path({str(sshd.config)!r}), 5))\n"
        "print('up', flush=True); sys.stdin.readline()\n"
        "print(c.run(('echo', 'still here')).stdout.decode(), flush=True); c.close()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as controller:
        assert controller.stdout is not None
        controller.stdout.readline()
        os.killpg(controller.pid, signal.SIGINT)
        said, _ = controller.communicate(b"\n", timeout=30)
    assert said == b"still here\n\n"


def test_an_ssh_that_gives_up_for_another_cause_does_not_accuse_the_node(tmp_path: Path) -> None:
    with pytest.raises(node_errors.SshError, match="no-config") as caught:
        NodeConnection(Destination("spark-a", "node", tmp_path / "no-config", 5))
    assert type(caught.value) is node_errors.SshError
