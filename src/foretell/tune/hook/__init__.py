"""The hook in a training loop: times epochs, and changes system settings between them."""
