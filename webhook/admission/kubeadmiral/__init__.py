"""The admission of KubeAdmiral's policies."""
