"""Who carries messages between the server and the platforms."""
