"""What calls remember for further ones: shortcuts of a backend, small products on the host, products on a device."""
