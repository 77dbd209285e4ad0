# Pings peers at full size without fragments, then small if that fails; all at the same time.
# Arguments: source, target and payload, again and again. Prints one line for each pair:
# source, target, status at full size, status small, what ping said at full size; tabs between.
LC_ALL=C
export LC_ALL
probe() {
  said=$(ping -n -q -c 1 -W 1 -M do -s "$3" -I "$1" "$2" 2>&1)
  full=$? small=0
  if [ "$full" != 0 ]; then
    ping -n -q -c 1 -W 1 -I "$1" "$2" >/dev/null 2>&1
    small=$?
  fi
  printf '%s\t%s\t%s\t%s\t%s\n' "$1" "$2" "$full" "$small" "$(printf %s "$said" | tr '\t\n' '  ')"
}
while [ $# -gt 2 ]; do
  probe "$1" "$2" "$3" &
  shift 3
done
wait
exit 0
