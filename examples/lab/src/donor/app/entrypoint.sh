#!/bin/bash
# Starts the server from MODEL_PATH, HOST and PORT. A model or port in the arguments is ignored, and so
# is everything before the first flag: `docker run IMAGE ./run-cluster-node.sh ...` starts no launcher.
set -eu
flags=()
while [ "$#" -gt 0 ]; do
  case $1 in
  --port | --host)
    shift 2
    continue
    ;;
  -*) flags+=("$1") ;;
  *) [ "${#flags[@]}" -eq 0 ] || flags+=("$1") ;;
  esac
  shift
done
exec vllm serve "$MODEL_PATH" --host "${HOST:-0.0.0.0}" --port "$PORT" "${flags[@]}"
