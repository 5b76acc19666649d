# Takes $2 percent off the amount $1.
echo "$(($1 - $2))"
