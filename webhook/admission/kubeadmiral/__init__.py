"""KubeAdmiral's policies, which have no webhook of their own."""
