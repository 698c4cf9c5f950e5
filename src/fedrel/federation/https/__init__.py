"""A narrow transport: one HTTPS service of six messages at the coordinator; platforms and admins only call it."""
