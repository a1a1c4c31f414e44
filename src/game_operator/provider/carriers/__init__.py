"""How a call travels to a wallet: over HTTP and in process, well-behaved and misbehaving."""
