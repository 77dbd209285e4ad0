#!/bin/bash
# Sets what vLLM, NCCL, Gloo and UCX need to know of this node's fabric, then becomes the command.
set -eu

usage() {
  cat >&2 <<'TEXT'
usage: run-cluster-node.sh --role head|node --host-ip IP --eth-if IF --ib-if HCA[,HCA]
                           [--head-ip IP] -- COMMAND...
  -r, --role     head, or node
  -h, --host-ip  this node's address on the fabric
  -e, --eth-if   the network interface that has this address
  -i, --ib-if    the RDMA devices of the fabric, separated by commas
  -m, --head-ip  the head's address; a node needs it
TEXT
  exit 1
}

role='' host_ip='' eth_if='' ib_if='' head_ip=''
while [ "$#" -gt 0 ]; do
  if [ "$1" = -- ]; then
    shift
    break
  fi
  [ "$#" -ge 2 ] || usage
  case $1 in
  -r | --role) role=$2 ;;
  -h | --host-ip) host_ip=$2 ;;
  -e | --eth-if) eth_if=$2 ;;
  -i | --ib-if) ib_if=$2 ;;
  -m | --head-ip) head_ip=$2 ;;
  *)
    echo "run-cluster-node.sh: unknown argument $1" >&2
    usage
    ;;
  esac
  shift 2
done

case $role in
head) ;;
node) [ -n "$head_ip" ] || usage ;;
*) usage ;;
esac
[ -n "$host_ip" ] && [ -n "$eth_if" ] && [ -n "$ib_if" ] && [ "$#" -gt 0 ] || usage

export VLLM_HOST_IP=$host_ip
export NCCL_SOCKET_IFNAME=$eth_if
export NCCL_IB_HCA=$ib_if
export NCCL_IB_DISABLE=0
export GLOO_SOCKET_IFNAME=$eth_if
export TP_SOCKET_IFNAME=$eth_if
export UCX_NET_DEVICES=$eth_if
export MN_IF_NAME=$eth_if
export OMPI_MCA_btl_tcp_if_include=$eth_if
exec "$@"
