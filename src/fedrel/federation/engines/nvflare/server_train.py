"""NVFlare's server, with a door that nobody can block.

NVFlare shakes hands where it waits for connections: one that says nothing, a port scanner's for instance, would keep
everybody else out for as long as it lasts. Here each has a thread of its own for that, and a few seconds; and why one
was refused is written down.
"""

from __future__ import annotations

import logging
import runpy
import ssl
from typing import Any

from nvflare.fuel.f3.drivers import tcp_driver

_PATIENCE = 10.0  # seconds for a handshake
_REASONS = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it has no certificate",
    "HTTP_REQUEST": "it speaks plain text, not TLS",
    "WRONG_VERSION_NUMBER": "it speaks plain text, not TLS",
    "CERTIFICATE_EXPIRED": "its certificate has expired",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not trust this federation's certificates; its kit is of another one",
}
log = logging.getLogger("door")


class Door(tcp_driver.TcpStreamServer):  # type: ignore[misc]  # nvflare has no types
    daemon_threads = True

    def __init__(self, driver: Any, connector: Any) -> None:
        super().__init__(driver, connector)
        if self.ssl_context:
            self.socket.do_handshake_on_connect = False

    def finish_request(self, request: Any, client_address: Any) -> None:
        """In the connection's own thread."""
        if self.ssl_context:
            try:
                request.settimeout(_PATIENCE)
                request.do_handshake()
                request.settimeout(None)
            except OSError as error:
                log.warning(f"refused {client_address[0]}: {_explained(error)}")
                return
        super().finish_request(request, client_address)


def _explained(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return f"it said nothing for {_PATIENCE:g} seconds"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not of this federation, or not valid now: {error.verify_message}"
    reason = getattr(error, "reason", None) or str(error)
    return _REASONS.get(reason, reason)


def main() -> None:
    tcp_driver.TcpStreamServer = Door
    runpy.run_module("nvflare.private.fed.app.server.server_train", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
