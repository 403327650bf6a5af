"""Speed of the product on this machine; run with `make bench`."""
