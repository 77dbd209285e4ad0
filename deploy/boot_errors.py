"""What can keep `inv boot` from installing, one class each."""

from __future__ import annotations

from builder.errors import ManifestError, Message
from deploy.node_errors import OneNodeError


class BootRightsError(OneNodeError):
    """A systemd unit is root's, and the ssh user is neither root nor may he become it."""

    what = "a systemd unit needs root's rights there"
    remedy = "let the ssh user run sudo without a password for this once, or set `ssh` to root@…"


class NoSystemdError(OneNodeError):
    """The node is not run by systemd."""

    what = "there is no systemctl, so nothing would start the unit"
    remedy = 'set on_boot = "never" in [container], and start the pair with `inv deploy`'


class OldPythonError(OneNodeError):
    """The node's own Python cannot run the program."""

    what = "its own /usr/bin/python3 cannot run the program: Python 3.10 or later is needed"
    remedy = "install the distribution's package python3"


class NotDeclaredError(ManifestError):
    """The manifest does not want what is asked for."""

    @property
    def messages(self) -> tuple[Message, ...]:
        """The one message."""
        return (
            Message(
                place="cluster.toml: container.on_boot",
                what="nothing is to be started after a restart, so there is nothing to install",
                expected='"pair"',
                found='"never", or unset, which means the same',
                remedy='set on_boot = "pair" in [container] and run `inv lock`',
            ),
        )
