# Adds up the prices on its input, one on each line.
total=0
while read -r price; do
  total=$((total + 1))
done
echo "$total"
