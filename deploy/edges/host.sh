# What a node's machine is like, in sections that deploy/parse_host.py reads.
# Arguments: the ports of interest as PORT|PORT in hex, the model's folder, then paths to look for.
# Every part may fail: what is not printed is not known, and preflight says so.
LC_ALL=C
export LC_ALL
ports=$1 model=$2
shift 2
section() { printf '\036%s\n' "$1"; }
rdma=/sys/class/infiniband

section clock
date +%s.%N

section files
grep -s -H '' /proc/net/tcp /proc/net/tcp6 /proc/meminfo /proc/cmdline /proc/sys/kernel/osrelease \
  /proc/driver/nvidia/version /sys/class/dmi/id/product_name \
  $rdma/*/fw_ver $rdma/*/device/current_link_speed $rdma/*/device/current_link_width \
  $rdma/*/ports/1/state $rdma/*/ports/1/phys_state $rdma/*/ports/1/link_layer \
  $rdma/*/ports/1/rate $rdma/*/ports/1/gid_attrs/types/*
# A device has 255 slots, of which all but a few are empty.
grep -s -H -v '^0000:0000:0000:0000:0000:0000:0000:0000$' $rdma/*/ports/1/gids/*

section readable
for file in $rdma/*/ports/1/gids/0 /proc/net/tcp; do [ -r "$file" ] && printf '%s\n' "$file"; done

section devices
for path in $rdma/* $rdma/*/device/net/*; do [ -e "$path" ] && printf '%s\n' "$path"; done

section netdevs
ip -json address show

section gpus
for file in /proc/driver/nvidia/gpus/*/information; do [ -e "$file" ] && printf '%s\n' "$file"; done

section hook
command -v nvidia-container-runtime-hook

section limits
for file in $(grep -s -l -x dockerd /proc/[0-9]*/comm); do
  grep -s '^Max locked memory' "${file%comm}limits"
  grep -s '^CapEff' "${file%comm}status"
done

section disk
folder=$model
while [ -n "$folder" ] && [ ! -d "$folder" ]; do folder=${folder%/*}; done
stat -f -c '%a %S' -- "${folder:-/}"

section missing
for path; do [ -e "$path" ] || printf '%s\n' "$path"; done

section shm
find /dev/shm -mindepth 1 -maxdepth 1 -printf '%s %f\n'

section strays
for file in $(grep -s -l -E '^(raylet|gcs_server|ray::|VLLM::)' /proc/[0-9]*/comm); do
  grep -s -H '' "$file" "${file%comm}cgroup"
done

section holders
if grep -q -s -E "^ *[0-9]+: [0-9A-F]+:($ports) [0-9A-F:]+ 0A " /proc/net/tcp /proc/net/tcp6; then
  if [ "$(id -u)" = 0 ]; then ss -H -l -t -n -p; else sudo -n ss -H -l -t -n -p </dev/null; fi
fi

section end
exit 0
