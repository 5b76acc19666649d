[ "$(sh lib/discount.sh 2000 10)" = 1800 ]
