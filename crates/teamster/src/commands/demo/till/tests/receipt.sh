printf '250\n120\n' | sh receipt.sh 10 | grep -qx 'to pay: 333'
