"""What a machine must have to carry a lab: asked, and on Debian or Ubuntu installed on demand."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from deploy.lab.errors import ROOT_NEEDED, InstallError, RequirementsMissingError
from deploy.lab.node_init import PATH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

PACKAGE_OF: Final = {
    "dockerd": "docker.io",
    "docker": "docker.io",
    "containerd": "containerd",
    "sshd": "openssh-server",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "/usr/bin/python3": "python3",
}
"""Programs a lab calls, and the Debian package of each.

The lab's images hold no interpreter: their scripts run the machine's /usr/bin/python3.
"""
CAPABILITIES_NEEDED: Final = "root's capabilities, which a container has with --privileged only"
CAP_NET_ADMIN: Final = 12
CAP_SYS_ADMIN: Final = 21
POLICY_FILE: Final = Path("/usr/sbin/policy-rc.d")
"""Debian packages ask it before they start a service; 101 means no. Source: invoke-rc.d(8)."""
_SERVICES: Final = (
    "containerd.service",
    "docker.service",
    "docker.socket",
    "ssh.service",
    "ssh.socket",
)
"""What the packages above would start."""


@dataclass(frozen=True, slots=True)
class Missing:
    """Something the machine has not; `package` is empty when no package brings it."""

    what: str
    package: str = ""


def missing_requirements(
    package_of: Mapping[str, str] = PACKAGE_OF,
) -> tuple[Missing, ...]:
    """What stands between this machine and a lab; empty when it can carry one.

    `package_of` has the Debian package of every program, or file by its path, that must be there.
    """
    machine = [
        Missing(what)
        for what, present in (
            ("Linux", sys.platform == "linux"),
            ("an x86-64 processor, as the lab's images are linux/amd64", _is_x86_64()),
            (ROOT_NEEDED, os.geteuid() == 0),
            (CAPABILITIES_NEEDED, os.geteuid() != 0 or _has_capabilities()),
            ("the overlay file system in the kernel", _has_overlay()),
        )
        if not present
    ]
    programs = [
        Missing(program, _client_package() if program == "docker" else package)
        for program, package in package_of.items()
        if not (Path(program).exists() if program.startswith("/") else _found(program))
    ]
    return (*machine, *programs)


def _found(program: str) -> bool:
    return shutil.which(program, path=PATH) is not None


def _client_package() -> str:
    """The package of Docker's client: its own since Debian 13, part of docker.io before."""
    if shutil.which("apt-cache") is None:
        return "docker.io"
    argv = ("apt-cache", "show", "docker-cli")
    known = subprocess.run(argv, capture_output=True, check=False).returncode == 0
    return "docker-cli" if known else "docker.io"


def install_command(missing: Sequence[Missing]) -> tuple[str, ...]:
    """The command that installs what packages bring; empty if none do."""
    packages = sorted({item.package for item in missing if item.package})
    if not packages:
        return ()
    return ("apt-get", "install", "-y", "--no-install-recommends", *packages)


def provide(
    *,
    install: bool,
    announce: Callable[[str], None],
    package_of: Mapping[str, str] = PACKAGE_OF,
) -> None:
    """Nothing; the machine has it all. Errors and `announce` as of `install_missing`."""
    install_missing(lambda: missing_requirements(package_of), announce, allowed=install)


def install_missing(
    find: Callable[[], Sequence[Missing]], announce: Callable[[str], None], *, allowed: bool
) -> None:
    """Nothing; `find` finds nothing missing, and no service was started or enabled by the way.

    `announce` gets each command before it runs. RequirementsMissingError if installing is not
    allowed, not possible here, or was not enough; InstallError if apt-get fails.
    """
    missing = find()
    if not missing:
        return
    command = install_command(missing)
    possible = command and os.geteuid() == 0 and shutil.which("apt-get") is not None
    if not allowed or not possible or any(not item.package for item in missing):
        raise RequirementsMissingError([item.what for item in missing], command)
    with _no_services_started(), _services_left_disabled():
        _announced_apt(("apt-get", "update"), announce)
        _announced_apt(install_command(find()), announce)  # only now is every package known
    still = find()
    if still:
        raise RequirementsMissingError([item.what for item in still], install_command(still))


def _announced_apt(argv: Sequence[str], announce: Callable[[str], None]) -> None:
    announce(" ".join(argv))
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(
        argv, env=environment, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    if done.returncode != 0:
        raise InstallError(argv, done.returncode, done.stdout + done.stderr)


@contextmanager
def _no_services_started() -> Iterator[None]:
    """Nothing; inside the block, packages do not start what they bring."""
    kept = POLICY_FILE.with_name("policy-rc.d.sparklock-kept")
    if POLICY_FILE.exists() and not kept.exists():  # a kept one means an earlier run was killed
        POLICY_FILE.rename(kept)
    POLICY_FILE.write_text("#!/bin/sh\nexit 101\n")
    POLICY_FILE.chmod(0o755)
    try:
        yield
    finally:
        POLICY_FILE.unlink()
        if kept.exists():
            kept.rename(POLICY_FILE)


@contextmanager
def _services_left_disabled() -> Iterator[None]:
    """Nothing; after the block no service starts at boot that did not before."""
    if not Path("/run/systemd/system").is_dir():
        yield
        return
    before = _enabled_services()
    yield
    for service in sorted(_enabled_services() - before):
        subprocess.run(["systemctl", "disable", service], capture_output=True, check=False)


def _enabled_services() -> set[str]:
    argv = ["systemctl", "list-unit-files", "--state=enabled", "--no-legend", "--plain", *_SERVICES]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return {line.split()[0] for line in done.stdout.splitlines() if line.strip()}


def _is_x86_64() -> bool:
    return platform.machine() == "x86_64"


def _has_capabilities() -> bool:
    """Whether root here may make namespaces, mounts and links."""
    (effective,) = (line for line in _lines("/proc/self/status") if line.startswith("CapEff:"))
    bits = int(effective.split()[1], 16)
    return all(bits >> capability & 1 for capability in (CAP_NET_ADMIN, CAP_SYS_ADMIN))


def _has_overlay() -> bool:
    """Whether the kernel has overlay, now or as a module it can load."""
    if any(line.split()[-1] == "overlay" for line in _lines("/proc/filesystems")):
        return True
    modules = Path("/lib/modules", platform.release(), "modules.dep")
    return any("/overlay.ko" in line for line in _lines(str(modules)))


def _lines(path: str) -> list[str]:
    file = Path(path)
    return file.read_text().splitlines() if file.exists() else []
