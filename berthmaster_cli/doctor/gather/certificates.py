"""Reads the certificates that a webhook serves: from its endpoint, and from its Secret."""

import socket
import ssl
from contextlib import closing
from dataclasses import replace

from berthmaster_cli.doctor.facts import EndpointFacts, SecretFacts, Setup
from berthmaster_cli.doctor.gather.client import DoctorClient
from certs.bundle import Bundle
from certs.certificate import certificate_of, key_fits
from certs.registration import Endpoint
from certs.secrets import read_secret


def read_endpoint(endpoint: Endpoint, bundle: Bundle, limit_s: float) -> EndpointFacts:
    """Connect to an endpoint, first without verification, then as a client that trusts only the bundle."""
    host, port = endpoint.host, endpoint.port
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # the certificate is only read, and nothing is sent
    try:
        with closing(_session(endpoint, context, limit_s)) as session:
            leaf = certificate_of(ssl.DER_cert_to_PEM_cert(session.getpeercert(binary_form=True) or b"").encode())
    except socket.gaierror as error:
        return EndpointFacts(host, port, "unresolved", error.strerror or str(error))
    except ssl.SSLError as error:
        return EndpointFacts(host, port, "refused", error.reason or str(error))
    except OSError as error:
        return EndpointFacts(host, port, "unreachable", error.strerror or str(error) or type(error).__name__)
    found = EndpointFacts(host, port, "served", "", leaf)
    if not len(bundle):
        return found
    context = ssl.create_default_context(cadata=bundle.pem.decode())
    # Python requires extensions in an authority that the API server, written in Go, does not require.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    try:
        with closing(_session(endpoint, context, limit_s)):
            return found
    except ssl.SSLCertVerificationError as error:
        return replace(found, verify_error=error.verify_message or str(error), verify_code=error.verify_code)
    except OSError as error:
        return replace(found, contact="refused", problem=str(error))


def _session(endpoint: Endpoint, context: ssl.SSLContext, limit_s: float) -> ssl.SSLSocket:
    plain = socket.create_connection((endpoint.host, endpoint.port), timeout=limit_s)
    try:
        return context.wrap_socket(plain, server_hostname=endpoint.host)
    except OSError:
        plain.close()
        raise


def read_serving_secret(client: DoctorClient, setup: Setup) -> SecretFacts | None:
    """Read the Secret that the webhook serves from; None if it does not exist."""
    name = f"{setup.release}-webhook-tls"
    secret = read_secret(client, (setup.namespace, name))
    if secret is None:
        return None
    leaf = secret.leaf.certificate
    return SecretFacts(name, leaf, leaf is not None and key_fits(leaf, secret.leaf.key_pem))
