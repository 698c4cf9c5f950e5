"""NVIDIA FLARE as a carrier of signed messages, for organisations that already run a FLARE federation.

    node ── channel ── bridge ── Unix socket ── relay, in a FLARE job ── FLARE ── relay ── socket ── bridge ── node

| module | runs in | needs nvflare |
|---|---|---|
| bridge | a child of our node, with the same channel protocol as the network process | no |
| node_link | the relay: its end of the Unix socket | no |
| controller, executor | FLARE's server job and client job | yes |
| job, site | `fedrel nvflare job` and `fedrel nvflare site`, which prepare FLARE | no |
| guard, rules | FLARE's own processes, if started through it: refuses messages that the relay does not need | yes |

FLARE sees signed bytes. It can drop them, but not forge or change them, and learns no more than the coordinator's
network process does. Its processes should run as a different user from fedrel's: see docs/nvflare.md.
"""
