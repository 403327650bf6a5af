"""Laws: products of powers, sums of scaling terms, and a law with a model of its residuals."""
