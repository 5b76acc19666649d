#!/bin/sh
# teamster plugin launcher
# Calls the teamster on PATH, else the one that exported this plugin, so that the plugin works on another machine
# and after an update. Where there is none, a hook says so once a session and does nothing: it must not get in the
# way of the client.

set -f
ifs=$IFS
IFS=:
for folder in $PATH; do
  program=$folder/teamster
  case $folder in /*) ;; *) continue ;; esac
  [ -f "$program" ] && [ -x "$program" ] || continue
  # The client may have put this folder, or that of another copy of this plugin, on PATH.
  mark=
  { IFS= read -r _ && IFS= read -r mark; } < "$program" 2> /dev/null
  [ "$mark" = '# teamster plugin launcher' ] && continue
  IFS=$ifs
  set +f
  exec "$program" "$@"
done
IFS=$ifs
set +f

exported=@PROGRAM@
[ -f "$exported" ] && [ -x "$exported" ] && exec "$exported" "$@"

if [ "$1" = hook ]; then
  cat > /dev/null
  if [ "$2" = SessionStart ]; then
    echo '{"systemMessage":"The teamster plugin sees nothing: the teamster command is not installed."}'
  fi
  exit 0
fi
echo 'error: the teamster command is not installed' >&2
echo 'hint: install it, or put it on PATH' >&2
exit 127
