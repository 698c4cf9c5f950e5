"""The HTTPS transport: one service with six messages at the coordinator, which platforms and admins call."""
