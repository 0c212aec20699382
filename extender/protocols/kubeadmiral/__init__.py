"""KubeAdmiral's scheduler webhook: filter, score and select."""
