from __future__ import annotations

from pathlib import Path

import pytest

from builder.digest import digest_bytes
from builder.errors import NodeError, SparklockError
from deploy import errors, node_errors
from deploy.together import together


def every_kind(kind: type[SparklockError]) -> list[type[SparklockError]]:
    return [kind, *(found for sub in kind.__subclasses__() for found in every_kind(sub))]


def test_every_ssh_failure_has_its_own_words_and_a_remedy_with_the_destination_quoted() -> None:
    kinds = [
        kind for kind in every_kind(node_errors.SshError) if issubclass(kind, node_errors.SshError)
    ]
    assert len({kind.what for kind in kinds}) == len(kinds) > 9
    for kind in kinds:
        (message,) = kind("spark-a", "me@spark a", "said").messages
        assert message.place == "node spark-a"
        assert message.detail == "said"
        assert "{" not in message.remedy


def test_a_command_to_try_takes_the_same_ssh_config() -> None:
    plain = node_errors.NodeUnreachableError("a", "me@a", "")
    own = node_errors.NodeUnreachableError("a", "me@a", "", Path("my lab/ssh_config"))
    assert plain.remedy.endswith("ssh -v me@a true")
    assert own.remedy.endswith("ssh -F 'my lab/ssh_config' -v me@a true")


def test_a_pull_that_lacks_a_blob_names_it_and_how_to_get_it() -> None:
    digest = digest_bytes(b"layer")
    error = node_errors.ImagePullError("spark-a", "sparklock/lab:1", "not found", missing=[digest])
    assert digest in str(error)
    assert "inv build" in str(error)


def test_a_full_disk_gets_its_own_remedy() -> None:
    error = node_errors.RemoteCommandError("n", ["tar"], 2, "tar: No space left on device")
    assert "df -h" in str(error)


def test_a_long_command_is_shortened_in_the_text_and_kept_in_the_field() -> None:
    argv = ["find", *"abcdefgh"]
    error = node_errors.RemoteCommandError("n", argv, 1, "")
    assert "find a b c d e ... ended with status 1" in str(error)
    assert error.argv == tuple(argv)


def test_a_program_in_a_command_is_left_out_of_the_text() -> None:
    argv = ["sh", "-c", "echo a\nexit 3\n", "sh", "a b"]
    what = node_errors.RemoteCommandError("n", argv, None, "").what
    assert what == "sh -c ... sh 'a b' took too long"


def test_one_failed_node_is_raised_as_it_is_and_several_together() -> None:
    def fail(node: str) -> None:
        raise node_errors.EngineStoppedError(node)

    with pytest.raises(node_errors.EngineStoppedError):
        together({"a": lambda: fail("a"), "b": lambda: None})
    with pytest.raises(errors.NodesFailedError) as caught:
        together({"a": lambda: fail("a"), "b": lambda: fail("b")})
    assert [message.place for message in caught.value.messages] == ["node a", "node b"]
    assert isinstance(caught.value, NodeError)


def test_a_bug_on_one_node_is_not_hidden_behind_anothers_failure() -> None:
    def fail() -> None:
        raise errors.PreflightError([])

    def bug() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        together({"a": fail, "b": bug})


def test_results_come_by_node_and_nothing_to_do_is_no_result() -> None:
    assert together({"a": lambda: 1, "b": lambda: 2}) == {"a": 1, "b": 2}
    assert together({}) == {}
