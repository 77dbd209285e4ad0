"""The way into the nodes: keys made for this lab alone, known host keys, an ssh_config."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

from deploy.lab.errors import LabCommandError

if TYPE_CHECKING:
    from pathlib import Path

    from deploy.lab.spec import LabSpec, NodeSpec


def ssh_config_text(spec: LabSpec) -> str:
    """The ssh_config: every node by name, its host key checked, nothing of the user's own used."""
    hosts = (
        f"Host {node.name}\n  HostName {node.address}\n  HostKeyAlias {node.name}\n"
        for node in spec.nodes
    )
    common = (
        "Host *",
        "  User root",
        f"  IdentityFile {_quoted(spec.path / 'key')}",
        "  IdentitiesOnly yes",
        "  PreferredAuthentications publickey",
        f"  UserKnownHostsFile {_quoted(spec.path / 'known_hosts')}",
        "  GlobalKnownHostsFile /dev/null",
        "  StrictHostKeyChecking yes",
        "  UpdateHostKeys no",
        "  BatchMode yes",
        # Nothing leaves this machine, and ssh's first choice takes 60 ms of a processor per login.
        "  KexAlgorithms curve25519-sha256",
    )
    return "\n".join((*hosts, *common)) + "\n"


def _quoted(path: Path) -> str:
    """A path as ssh_config reads it: blanks need quotes, and `%` begins a token."""
    return f'"{path}"'.replace("%", "%%")


def write_access(spec: LabSpec) -> None:
    """Nothing; keys that were missing are made, and the files that ssh reads are written."""
    spec.path.mkdir(parents=True, exist_ok=True)
    make_key(spec.path / "key", f"sparklock lab {spec.name}")
    known: list[str] = []
    for node in spec.nodes:
        key = host_key(spec, node)
        key.parent.mkdir(exist_ok=True)
        make_key(key, node.name)
        kind, text = key.with_suffix(".pub").read_text().split()[:2]
        known.append(f"{node.name} {kind} {text}\n")
    (spec.path / "known_hosts").write_text("".join(known))
    spec.ssh_config.write_text(ssh_config_text(spec))


def host_key(spec: LabSpec, node: NodeSpec) -> Path:
    """The host key that known_hosts tells of; the node uses a copy."""
    return spec.path / "hostkeys" / node.name


def install_access(spec: LabSpec, node: NodeSpec) -> None:
    """Nothing; the node's own disk has its host key, and lets the lab's key in."""
    shutil.copy(host_key(spec, node), node.folder / "hostkey")
    ssh_folder = node.folder / "root" / ".ssh"
    for folder in (ssh_folder.parent, ssh_folder):
        folder.mkdir(mode=0o700, exist_ok=True)
    shutil.copy(spec.path / "key.pub", ssh_folder / "authorized_keys")


def make_key(path: Path, comment: str) -> None:
    """Nothing; there is an ed25519 key pair, the private half readable by its owner only."""
    if path.exists():
        return
    argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabCommandError(argv, done.returncode, done.stderr, place="lab keys")
