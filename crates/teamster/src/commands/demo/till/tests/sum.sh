[ "$(printf '250\n120\n' | sh lib/sum.sh)" = 370 ]
