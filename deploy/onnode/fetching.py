"""Files of a model from the Hub, by the huggingface_hub of the image that this runs in.

Asked: {"repo", "revision", "files", "folder", "endpoint", "token"}. Told: {"bytes"} now and then,
what is in the folder, then {"done": true}, or {"error"} with more facts. The token is in no text.
"""

from __future__ import annotations

import json
import os
import sys
import threading

TELL_S = 0.5
WORKERS = 8
SAID = 600


def tell(**facts: object) -> None:
    """One line of JSON."""
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def escaped(path: str) -> str:
    """A pattern that fits just one path."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in path)


def folder_bytes(folder: str) -> int:
    """What is on disk of all files below a folder."""
    total = 0
    for here, _, names in os.walk(folder):
        for name in names:
            try:
                stat = os.lstat(os.path.join(here, name))  # noqa: PTH118
            except OSError:
                continue  # renamed meanwhile
            total += min(stat.st_size, stat.st_blocks * 512)
    return total


def answer_of(error: BaseException | None) -> tuple[int, str]:
    """Status and X-Error-Code of the answer that an error came of; 0 if there was none."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        seen.append(error)
        response = getattr(error, "response", None)
        status = getattr(response, "status_code", None)
        if isinstance(status, int):
            return status, str(getattr(response, "headers", {}).get("X-Error-Code") or "")
        error = error.__cause__ or error.__context__
    return 0, ""


def end_with_stdin() -> None:
    """End the process when nobody holds its stdin any more."""
    while sys.stdin.buffer.read(2**16):
        pass
    os._exit(3)


def watch(folder: str) -> None:
    """Tell what is there, again and again."""
    pause = threading.Event()
    while not pause.wait(TELL_S):
        tell(bytes=folder_bytes(folder))


def main() -> None:
    """Read what is asked, fetch, tell."""
    asked = json.loads(sys.stdin.buffer.readline())
    folder, token = asked["folder"], asked["token"]
    threading.Thread(target=end_with_stdin, daemon=True).start()
    os.environ.update(  # noqa: TID251 - this runs in a container
        HF_HOME=folder + "/.cache/home",
        HF_ENDPOINT=asked["endpoint"],
        HF_HUB_DISABLE_PROGRESS_BARS="1",
        HF_HUB_DISABLE_TELEMETRY="1",
        HF_HUB_DISABLE_IMPLICIT_TOKEN="1",  # noqa: S106 - no token
        HF_XET_CHUNK_CACHE_SIZE_BYTES="0",
        HF_HUB_OFFLINE="0",
        HF_HUB_ENABLE_HF_TRANSFER="0",
    )
    try:
        import huggingface_hub  # noqa: PLC0415 - after the environment that it reads
    except ImportError as error:
        tell(error="library", said=str(error))
        os._exit(0)
    threading.Thread(target=watch, args=(folder,), daemon=True).start()
    try:
        huggingface_hub.snapshot_download(
            asked["repo"],
            revision=asked["revision"],
            local_dir=folder,
            allow_patterns=[escaped(path) for path in asked["files"]],
            endpoint=asked["endpoint"],
            token=token or False,
            max_workers=WORKERS,
        )
    except Exception as error:  # noqa: BLE001 - whatever it is, who asked has to be told
        status, code = answer_of(error)
        said = " ".join(f"{type(error).__name__}: {error}".split())
        said = said.replace(token, "***") if token else said
        tell(error="hub", status=status, code=code, said=said[:SAID])
    else:
        tell(done=True)
    os._exit(0)


if __name__ == "__main__":
    main()
