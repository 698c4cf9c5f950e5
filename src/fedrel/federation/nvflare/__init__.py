"""NVIDIA FLARE as a carrier of signed messages, for those who run a FLARE federation already.

    node ── channel ── bridge ── Unix socket ── relay, in a FLARE job ── FLARE ── relay ── socket ── bridge ── node

| module | runs in | needs nvflare |
|---|---|---|
| bridge | a child of our node, which speaks the same channel protocol as the process with the network | no |
| line | the relay: its end of the Unix socket | no |
| controller, executor | FLARE's server job and client job | yes |
| job | `fedrel nvflare job`, which writes the job for FLARE | no |
| guard, rules | FLARE's own processes, if they are started by way of it: refuses what the relay does not need | yes |

FLARE sees signed bytes. It can drop them, but neither make nor change them, and learns no more than the coordinator's
own process with the network does. Its processes should run as another user than fedrel's: see docs/nvflare.md.
"""
