"""KubeAdmiral's scheduler webhook: filter, score and select."""

from extender.protocols.kubeadmiral.plugin import routes

__all__ = ["routes"]
