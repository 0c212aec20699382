"""KubeAdmiral's scheduler webhook: filter, score and select."""

from extender.protocols.kubeadmiral.routes import routes

__all__ = ["routes"]
