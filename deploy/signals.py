"""The signals by which somebody tells a task to end."""

from __future__ import annotations

import signal
from typing import Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
