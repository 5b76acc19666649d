# Runs every test; fails if one of them does.
cd "$(dirname "$0")" || exit 1
failed=0
for test in tests/*.sh; do
  if sh "$test"; then
    echo "ok      $test"
  else
    echo "FAILED  $test"
    failed=$((failed + 1))
  fi
done
[ "$failed" -eq 0 ]
